"""Runs mpi4py's test suite and writes what became of each test into a file.

    python ci/mpi/mpi4py-record.py TESTS RECORDS [options of TESTS/main.py]

One line when a test starts and one when it has ended, at once: of a process
that hangs or dies the last line says in which test. RECORDS is a directory, the
file is named by the process's rank in its job; a process that a test spawned
does not come here.
"""
import os
import sys
import time
import unittest

tests, records = sys.argv[1:3]
sys.path.insert(0, tests)
rank = os.environ.get("OMPI_COMM_WORLD_RANK", "0")
out = open(os.path.join(records, f"{rank}.txt"), "a", buffering=1, encoding="utf-8")


class Recorded(unittest.TextTestResult):
    """A result of a test is its first that is not `ok`."""

    def startTest(self, test):
        super().startTest(test)
        self.said, self.since = None, time.monotonic()
        print("start", test.id(), file=out)

    def say(self, what, test):
        # Of a test with parts, each may fail: it has failed once then.
        if self.said is None:
            self.said = what

    def stopTest(self, test):
        took = time.monotonic() - self.since
        print(self.said or "ok", test.id(), f"{took:.2f}", file=out)
        super().stopTest(test)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.say("FAIL", test)

    def addError(self, test, err):
        super().addError(test, err)
        if test.id().startswith("test_"):
            self.say("FAIL", test)
        else:
            # Of a module that cannot be loaded, or of its set-up.
            print("FAIL", test.id().split(" ")[-1].strip("()"), "0", file=out)

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.say("FAIL", test)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.say("skip", test)

    def addExpectedFailure(self, test, err):
        super().addExpectedFailure(test, err)
        self.say("ok", test)

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self.say("FAIL", test)


unittest.TextTestRunner.resultclass = Recorded
sys.argv = [os.path.join(tests, "main.py"), *sys.argv[3:]]
sys.dont_write_bytecode = True

import main  # noqa: E402  (from TESTS)

main.main(module=None)
