"""Activation checkpointing: marks what runs again, on the thread that runs it. Also marks backward passes with
create_graph."""

import functools

from . import tripwire


def install(module, library):
    """torch.utils.checkpoint, both kinds. Selective and nested checkpoints are made of these."""
    hook = module._recomputation_hook
    enter, leave = hook.__enter__, hook.__exit__

    # Not reentrant: this context surrounds exactly what runs again, even if it stops early.
    @functools.wraps(enter)
    def marked_enter(self):
        result = enter(self)
        library.recompute(1)
        return result

    @functools.wraps(leave)
    def marked_exit(self, *args):
        library.recompute(-1)
        return leave(self, *args)

    hook.__enter__, hook.__exit__ = marked_enter, marked_exit

    function = module.CheckpointFunction
    backward = function.backward

    # Reentrant: a custom Function (passes.py). Its backward runs the function again and then goes backward through it.
    @functools.wraps(backward)
    def marked_backward(ctx, *args):
        again = ctx.run_function

        def marked_again(*inputs):
            library.recompute(1)
            try:
                return again(*inputs)
            finally:
                library.recompute(-1)

        ctx.run_function = marked_again
        try:
            return backward(ctx, *args)
        finally:
            ctx.run_function = again

    function.backward = staticmethod(marked_backward)


def install_engine(module, library):
    """torch.autograd.graph: a backward that is itself recorded runs with grad mode on, like a forward that runs again.
    """
    library.create_graph(0)  # tells the library that there is glue
    run = module._engine_run_backward

    @functools.wraps(run)
    def marked_run(t_outputs, *args, **kwargs):
        try:
            tripwire.before_backward(t_outputs, library)
        except Exception:  # must not reach the program
            pass
        # run_backward(outputs, gradients, keep_graph, create_graph, inputs, allow_unreachable, accumulate_grad)
        library.accumulate(int(args[5] if len(args) > 5 else kwargs.get("accumulate_grad", True)))
        create = args[2] if len(args) > 2 else kwargs.get("create_graph", False)
        if not create:
            return run(t_outputs, *args, **kwargs)
        library.create_graph(1)
        try:
            return run(t_outputs, *args, **kwargs)
        finally:
            library.create_graph(-1)

    module._engine_run_backward = marked_run
    import torch.autograd

    if getattr(torch.autograd, "_engine_run_backward", None) is run:
        torch.autograd._engine_run_backward = marked_run
