"""A training whose workers die while the others go on in place: in_place.py PROGRAM CASE. Without CASE: lists them."""
import os
import pathlib
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from job import Failure, Job, is_alive  # noqa: E402

PROGRAM = sys.argv[1] if len(sys.argv) > 1 else ''
WORDS = {signal.SIGKILL: 'was killed by SIGKILL', signal.SIGABRT: 'was killed by SIGABRT',
         signal.SIGSEGV: 'was killed by SIGSEGV', -2: 'left the program with code 0 before it was done',
         -3: 'left the program with code 1 before it was done', signal.SIGSTOP: 'gave no sign of life for 1 s'}
POINTS = ['restore: before an object', 'program: in backward', 'step: before its commit', 'commit: the slot is open',
          'commit: the slot is half written', 'commit: all shares are in', 'program: between steps']


def job(*arguments, **settings):
    return Job(PROGRAM, {'epochs': 20, **settings}, *arguments)


def causes():
    """Every way to die, of the first and the last rank, is named; the others go on, and a replacement joins them."""
    for rank in (0, 2):
        for way, words in WORDS.items():
            deadline = 1 if way == signal.SIGSTOP else 30
            job([(rank, 'program: in backward', 4, int(way))], workers=3, deadline=deadline).expect(
                0, f'rank {rank} {words} in step 4', 'goes on with 2 workers from the end of step 3',
                'goes on with 3 workers', 'OK with 3 workers')


def places():
    """At every place of the protocol."""
    for i, point in enumerate(POINTS):
        job([(i % 3, point, 1, 9)], workers=3).expect(0, 'was killed by SIGKILL', 'goes on with 2 workers', 'OK with 3')


def shrinking():
    """One after another dies, down to the last."""
    faults = [(3, 'program: in backward', 3, 9), (0, 'program: in backward', 6, 9), (1, 'program: in backward', 9, 9)]
    job(faults, workers=4, policy='shrink').expect(0, 'goes on with 3', 'goes on with 2', 'goes on with 1 worker',
                                                   'OK with 1 workers', 'the job lost 3 workers')


def two_at_once():
    """Two die in the same step."""
    faults = [(1, 'program: in backward', 5, 9), (2, 'program: in backward', 5, 11)]
    job(faults, workers=4).expect(0, 'rank 1 was killed by SIGKILL', 'rank 2 was killed by SIGSEGV', 'OK with 4 workers')


def while_another_joins():
    """The replacement dies before it has come in, or a survivor does while it comes: all start again."""
    for victim in (0, 1):
        training = job([(2, 'program: in backward', 300, 9)], workers=3, epochs=400)
        first = wait_for(training, lambda workers: len(workers) == 3)
        known = set(first.values())
        while not (new := [pid for pid in training.all_workers() if pid not in known]):
            if training.process.poll() is not None:
                raise Failure(f'nobody joins\n{training.text()}')
            time.sleep(0.001)
        try:
            os.kill(new[0] if victim else first[0], 9)
        except ProcessLookupError:
            raise Failure(f'the training has ended\n{training.text()}') from None
        training.expect(0, 'OK with 3 workers')


def wait_for(training, is_good):
    while not is_good(workers := training.workers()):
        if training.process.poll() is not None:
            raise Failure(f'the job ended early\n{training.text()}')
        time.sleep(0.005)
    return workers


def deterministic_crash():
    """The same death for the third time ends the job with its cause."""
    Job(PROGRAM, {'workers': 3}, [(0, 'body: before it', 1, 11)], again=True).expect(
        1, 'rank 0 was killed by SIGSEGV in step 1 for the third time, so the job ends')


def exception():
    """What the body throws ends the job with its words, also after a death."""
    job([(1, 'program: in backward', 3, 9)], workers=3, policy='shrink', throw=0).expect(1, "the user's own words")


def below_the_minimum():
    """Too few are left."""
    job([(1, 'program: in backward', 3, 9)], workers=3, policy='shrink', min=3).expect(1, 'min_workers is 3')


def supervisor_dies():
    """Its workers end by themselves."""
    training = job(workers=3, epochs=10000)
    wait_for(training, lambda workers: len(workers) == 3)
    os.kill(training.process.pid, 9)
    training.process.wait()
    if left := training.left_over(10):
        raise Failure(f'processes {left} are left over')


def two_launches():
    """A second launch runs on those that the first has left."""
    job([(1, 'program: in backward', 3, 9)], workers=3, policy='shrink', launches=2).expect(
        0, 'OK with 2 workers', 'second OK with 2 workers')


CASES = [causes, places, shrinking, two_at_once, while_another_joins, deterministic_crash, exception, below_the_minimum,
         supervisor_dies, two_launches]


def main():
    if len(sys.argv) < 3:
        print(*(case.__name__ for case in CASES), sep='\n')
        return 0
    failed = False
    for name in sys.argv[2:]:
        began = time.monotonic()
        try:
            next(case for case in CASES if case.__name__ == name)()
            print(f'{name}: good after {time.monotonic() - began:.1f} s')
        except Failure as e:
            failed = True
            print(f'{name}: {e}')
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
