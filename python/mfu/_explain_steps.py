"""mfu.explain_steps(): profiles and explains a few steps of a loop from inside the program, without `mfu run`."""

import os
import tempfile
import warnings
from typing import Any, List, Optional

from ._load import observer
from ._manners import let_through, said


class ExplainedSteps:
    """The object of an mfu.explain_steps() block. After the block, `explanation` is an mfu.Explanation, or None; then
    `problem` says why."""

    def __init__(
        self,
        steps: int,
        after: Optional[int],
        stacks: bool,
        directory: Optional[str],
        device: str,
        peak: Optional[float],
    ) -> None:
        self.directory = directory
        self.explanation: Any = None
        self.problem = ""
        words = [f"steps={int(steps)}"]
        if after is not None:
            words.append(f"after={int(after)}")
        if stacks:
            words.append("stacks=1")
        self._asked, self._device, self._peak = " ".join(words), device, peak
        self._library: Any = None

    def __enter__(self) -> "ExplainedSteps":
        self.start()
        return self

    def __exit__(self, *error: Any) -> None:
        self.stop()

    def start(self) -> None:
        try:
            if self.directory is None:
                self.directory = tempfile.mkdtemp(prefix="mfu-explain-")
            os.makedirs(self.directory, exist_ok=True)
            self._library = observer().start(run_folder=self.directory, explain=self._asked)
        except Exception as error:
            let_through(error)
            self._complain(said(error))

    def stop(self) -> None:
        """Ends a window that is still open, and explains what was recorded. Never raises."""
        library, self._library = self._library, None
        if library is None:
            return
        try:
            library.end_window(1)
            observer().stop()
            traces = self._traces()
            if not traces:
                self._complain(
                    "no step was explained: the block ended before, or the program uses torch's profiler itself"
                )
                return
            from ._explain import explain

            self.explanation = explain(traces, device=self._device or self._default_device(), peak=self._peak)
        except Exception as error:
            let_through(error)
            self._complain(said(error))

    @property
    def findings(self) -> List[Any]:
        """What to change, with the largest gain first. Empty if nothing stands out or nothing was explained."""
        return self.explanation.findings if self.explanation is not None else []

    def _traces(self) -> List[str]:
        assert self.directory is not None
        return sorted(os.path.join(self.directory, name) for name in os.listdir(self.directory)
                      if name.startswith("trace-") and name.endswith(".json"))

    def _default_device(self) -> str:
        import torch

        return "" if torch.cuda.is_available() or self._peak is not None else "this"

    def _complain(self, problem: str) -> None:
        self.problem = problem
        warnings.warn(f"mfu.explain_steps: {problem}", RuntimeWarning, stacklevel=4)


def explain_steps(
    steps: int = 3,
    *,
    after: Optional[int] = None,
    stacks: bool = False,
    directory: "str | os.PathLike[str] | None" = None,
    device: str = "",
    peak: Optional[float] = None,
) -> ExplainedSteps:
    """Profiles `steps` steps of the loop in the block and explains them. It begins after `after` steps, or else when
    steps take about the same time.

        with mfu.explain_steps(3) as explained:
            for batch in loader:
                …; optimizer.step(); optimizer.zero_grad()
        print(explained.findings[0].title, explained.findings[0].fix)

    A step ends when an optimizer steps, or at mfu.mark_step(). The trace stays in `directory`. Nothing raises into the
    loop: see `problem`.
    """
    return ExplainedSteps(steps, after, stacks, None if directory is None else os.fspath(directory), device, peak)
