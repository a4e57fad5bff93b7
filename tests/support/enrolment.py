"""A coordinator and hospitals whose people type commands, and read codes to each other."""

import re

SPEAKS_OF_A_RUN = re.compile(r"\bthe run\b|\bresult was written\b|start the run|opened nothing")


class Enrolment:
    """A coordinator and hospitals whose people type commands; files need no FLARE."""

    def __init__(self, call, folder):
        self.call, self.folder, self.codes = call, folder, {}
        self.coordinator = folder / "coordinator"
        self.share = folder / "share"
        self.share.mkdir()
        new = ("coordinator", "new", "--study", "lungs", "--engine", "files", "--files", self.share)
        self.codes["coordinator"] = code_in(self.fine(*new, "--dir", self.coordinator))

    def fine(self, *words):
        code, out, err = self.call(*words)
        assert code == 0, err
        return out

    def wrong(self, *words, error, code=3):
        """What a command prints that fails by this error: cause, effect, do."""
        got, _, err = self.call(*words)
        lines = err.splitlines()
        assert (got, lines[0].split(".")[0].split(" ")[0]) == (code, error), err
        assert [line.split()[0] for line in lines[1:]] == ["cause", "effect", "do"], err
        assert not SPEAKS_OF_A_RUN.search(err), err
        cause, effect, do = (line[len("  effect  ") :] for line in lines[1:])
        return cause, effect, do.split("    (exit")[0]

    def site(self, name, *, study="lungs", folder=None):
        """A hospital makes itself known; its folder."""
        made = self.folder / (folder or name)
        new = ("site", "new", name, "--study", study, "--algorithm", "fedpc", "--dir", made)
        self.fine(*new, "--files", self.share / name)
        self.codes[made.name] = code_in(self.fine("site", "request", "--dir", made))
        return made

    def approve(self, made, **how):
        request = next(made.glob("*.request"))
        words = (
            "coordinator",
            "approve",
            request,
            "--code",
            how.pop("code", self.codes[made.name]),
        )
        words += ("--dir", self.coordinator)
        return self.wrong(*words, **how) if how else self.fine(*words)

    def activate(self, made, *words, approval=None, code=None, **how):
        words = ("--code", code or self.codes["coordinator"], *words, "--dir", made)
        file = approval or self.coordinator / "approvals" / f"{made.name}.approval"
        words = ("site", "activate", file, *words)
        return self.wrong(*words, **how) if how else self.fine(*words)


def code_in(said):
    return re.search(r"code\s+([a-z]+(?:-[a-z]+){8})$", said, re.MULTILINE)[1]
