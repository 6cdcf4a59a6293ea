"""A run: its sections, the steadiness of the machine, and the files of its report."""

import subprocess
from datetime import UTC, datetime
from pathlib import Path

from benchmarks import machine
from benchmarks.report import markdown, plot
from benchmarks.report.results import Figure, Section

RESULTS = Path(__file__).parent.parent / "results"
_LOOP = "a plain loop"


class Run:
    """Collects sections; write() saves them as text and plot."""

    def __init__(self, name: str, steps: int = machine.STEPS) -> None:
        """Initialise; `steps` is the length of the loop that measures the machine's speed."""
        self.name = name
        self.sections: list[Section] = []
        self.remarks: list[str] = []
        self.began = datetime.now(UTC)
        self.commit = _commit()
        self._speeds: list[float] = []
        self._steps = steps

    def section(self, title: str) -> Section:
        """Begin a section."""
        self.sections.append(Section(title))
        return self.sections[-1]

    def calibrate(self) -> None:
        """Measure the speed of the machine; call this before and after each measurement."""
        self._speeds.append(machine.speed(self._steps))

    def remark(self, words: str) -> None:
        """Add a line below the tables, unless it is already there."""
        if words not in self.remarks:
            self.remarks.append(words)

    def values(self, figure: Figure) -> dict[str, list[float]]:
        """Return the values of a metric by column, from the first section that has it; raises KeyError without one."""
        for section in self.sections:
            if figure in section.values:
                return section.values[figure]
        raise KeyError(figure.name)

    def spread(self) -> float:
        """Return the relative spread of the machine's speed."""
        return machine.spread(self._speeds)

    def is_steady(self) -> bool:
        """Return whether the machine was steady enough for a valid run, as far as rounds were repeated."""
        return all(share <= machine.MOST_SPREAD for share in self._spreads().values())

    def _spreads(self) -> dict[str, float]:
        """Return the relative spread of the machine's speed, and of each yardstick that was measured repeatedly."""
        spreads = {_LOOP: machine.spread(self._speeds)} if len(self._speeds) > 1 else {}
        for section in self.sections:
            for figure, values in section.values.items():
                if figure.is_yardstick:
                    repeated = {column: rounds for column, rounds in values.items() if len(rounds) > 1}
                    named = {column: rounds for column, rounds in repeated.items() if not column.startswith("ours")}
                    spreads |= {f"{figure.name} of {name}": machine.spread(rounds) for name, rounds in named.items()}
        return spreads

    def verdict(self) -> str:
        """Return the spreads in words."""
        spreads = self._spreads()
        wide = [f"{name} {share:.0%}" for name, share in spreads.items() if share > machine.MOST_SPREAD]
        if wide:
            return (
                f"TOO UNSTEADY TO JUDGE: repeated values differed by more than {machine.MOST_SPREAD:.0%}: "
                + "; ".join(wide)
            )
        told = "; ".join(f"{name} differed by {share:.0%}" for name, share in spreads.items())
        if spreads.keys() <= {_LOOP}:
            return f"NOT JUDGED by a peer, because none was measured in more than one round: {told or 'no repetition'}"
        return f"steady: {told}"

    def text(self) -> str:
        """Return the whole report."""
        head = [f"# make bench: {self.name}", "", f"{self.began:%Y-%m-%d %H:%M} UTC, commit {self.commit}"]
        head += [machine.describe(), f"The machine was {self.verdict()}.", ""]
        tables = [markdown.show(section) for section in self.sections]
        return "\n".join([*head, *tables, *(f"- {remark}" for remark in self.remarks)]) + "\n"

    def write(self, directory: Path) -> None:
        """Print the report, and save it with its plot."""
        directory.mkdir(exist_ok=True)
        text = self.text()
        print(f"\n{text}", flush=True)
        (directory / f"{self.name}.md").write_text(text)
        title = f"{self.name}: medians, {self.began:%Y-%m-%d}, commit {self.commit}"
        (directory / f"{self.name}.svg").write_text(plot.draw(title, self.sections))
        print(f"saved in {directory}", flush=True)


def _commit() -> str:
    command = ["git", "describe", "--always", "--dirty"]
    done = subprocess.run(command, cwd=RESULTS.parent, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"
