"""A training whose workers die in all ways at all places: cases.py PROGRAM CASE. Without CASE: lists them."""
import os
import pathlib
import signal
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from job import Failure, Job, is_alive  # noqa: E402

PROGRAM = sys.argv[1] if len(sys.argv) > 1 else ''
WORDS = {signal.SIGKILL: 'was killed by SIGKILL', signal.SIGABRT: 'was killed by SIGABRT',
         signal.SIGSEGV: 'was killed by SIGSEGV', -2: 'left the program with code 0 before it was done',
         -3: 'left the program with code 1 before it was done', signal.SIGSTOP: 'gave no sign of life for 1 s'}
POINTS = ['program: before launch', 'body: before it', 'restore: before an object', 'program: in backward',
          'step: before its commit', 'commit: the slot is open', 'commit: the slot is half written',
          'commit: all shares are in', 'program: between steps']
LATE = ['body: all have left it', 'program: after launch']


def job(*arguments, **settings):
    return Job(PROGRAM, settings, *arguments)


def undisturbed(**settings):
    return result_of(job(**settings).expect(0, 'OK', without=['hvd:']))


def result_of(text):
    return next(line for line in text.splitlines() if line.startswith('OK'))


def expect_same(text, wanted):
    if result_of(text) != wanted:
        raise Failure(f'{wanted} is not the result of\n{text}')


def no_fault():
    """Nothing is said, nothing is left, and the program's code counts."""
    undisturbed(workers=3)
    undisturbed(workers=1)


def causes():
    """Every way to die, of the first and the last rank, is named and recovered from."""
    wanted = undisturbed(workers=3)
    for rank in (0, 2):
        for way, words in WORDS.items():
            deadline = 1 if way == signal.SIGSTOP else 30
            text = job([(rank, 'program: in backward', 4, int(way))], workers=3, deadline=deadline).expect(
                0, f'rank {rank} {words} in step 4', 'the job lost 1 worker')
            expect_same(text, wanted)


def places():
    """At every place of the protocol, before the first step and during the last."""
    wanted = undisturbed(workers=3)
    for i, point in enumerate(POINTS):
        text = job([(i % 3, point, 1, 9)], workers=3).expect(0, 'was killed by SIGKILL')
        expect_same(text, wanted)


def after_the_last_step():
    """A death after the last step is none of the job's."""
    for rank in (0, 1):
        for point in LATE:
            job([(rank, point, 1, 9)], workers=3).expect(0, 'OK with 3 workers', without=['the job goes on'])
    job([(1, 'body: after it', 1, 9)], workers=3).expect(0, 'OK with 3 workers')


def stopped_in_starting():
    """A worker that is stopped before it has come to launch is found, too."""
    job([(1, 'program: before launch', 1, int(signal.SIGSTOP))], workers=2, deadline=1).expect(0, 'OK with 2 workers')


def in_recovery():
    """Another worker dies while the first death is recovered from, and again."""
    wanted = undisturbed(workers=3)
    for point in ('program: before launch', 'restore: before an object', 'restore: after an object',
                  'commit: before the slot'):
        faults = [(1, 'program: between steps', 3, 9), (2, point, 1, 9), (0, point, 1, 6)]
        if point == 'commit: before the slot':
            faults = [(1, 'program: between steps', 3, 9), (2, point, 4, 9), (0, point, 5, 6)]
        expect_same(job(faults, workers=3).expect(0, 'the job lost'), wanted)


def two_at_once():
    wanted = undisturbed(workers=4)
    text = job([(0, 'program: in backward', 6, 9), (3, 'program: in backward', 6, 11)], workers=4).expect(0)
    expect_same(text, wanted)


def shrinking():
    """One after another, until one is left."""
    faults = [(3, 'program: in backward', 3, 9), (2, 'program: in backward', 4, -2), (1, 'program: in backward', 5, 6)]
    job(faults, workers=4, policy='shrink').expect(0, 'OK with 1 workers', 'the job lost 3 workers')


def below_the_minimum():
    """The job ends with a sentence, a code and a checkpoint, from which another number of workers goes on."""
    with tempfile.TemporaryDirectory() as folder:
        file = str(pathlib.Path(folder, 'state'))
        job([(1, 'program: in backward', 6, 9)], workers=3, min=3, policy='shrink', checkpoint=file).expect(
            1, 'leaves 2 of 3 workers, and min_workers is 3', f'is in {file}', without=['OK'])
        job(workers=2, checkpoint=file).expect(0, 'OK with 2 workers')


def deterministic_crash():
    """The same death in the same step ends the job at its third time."""
    text = job([(1, 'program: in backward', 1, 11)], True, workers=2).expect(
        1, 'rank 1 was killed by SIGSEGV in step 1 for the third time', without=['OK'])
    if text.count('the job goes on') != 2:
        raise Failure(text)


def exception():
    """What a worker throws ends the job with its words, and is not tried again."""
    for rank in (0, 2):
        job(workers=3, throw=rank).expect(1, f'rank {rank} of 3 failed, so this job ends: the user\'s own words',
                                          without=['the job goes on', 'the job lost'])


def early_return():
    """A worker that returns early is found out by those who go on."""
    job(workers=3, **{'return': 1}).expect(1, 'so this job ends: hvd: ', 'rank 1', without=['the job goes on'])


def wait_for_workers(started, count):
    end = time.monotonic() + 60
    while len(started.workers()) < count:
        if time.monotonic() > end or started.process.poll() is not None:
            raise Failure(f'no workers\n{started.text()}')
        time.sleep(0.01)


def supervisor_dies():
    """Nobody is left when the supervisor is killed."""
    started = job(workers=3, epochs=1000000)
    wait_for_workers(started, 3)
    started.process.kill()
    started.process.wait()
    if left := started.left_over(15):
        raise Failure(f'{left} are left over')


def signals():
    """SIGTERM and SIGINT end the job with a sentence and the code that shells expect."""
    for number in (signal.SIGTERM, signal.SIGINT):
        started = job(workers=3, epochs=1000000)
        wait_for_workers(started, 3)
        time.sleep(0.3)
        started.process.send_signal(number)
        started.expect(128 + number, f'got {number.name}, so the job ends')


def others_die():
    """The launcher, its proxy and the shells beside the workers may be killed as well."""
    for which in ('mpiexec', 'proxy', 'sh'):
        started = job(workers=3, samples=1000, epochs=10)
        wait_for_workers(started, 3)
        time.sleep(0.2)
        names = {pid: pathlib.Path(f'/proc/{pid}/comm').read_text().strip() for pid in started.processes()
                 if is_alive(pid)}
        victims = [pid for pid, name in names.items() if which in name]
        if not victims:
            raise Failure(f'no {which} among {names}')
        os.kill(victims[0], signal.SIGKILL)
        started.wait()
        if started.process.returncode != 0 or 'OK' not in started.text():
            raise Failure(f'{which}: code {started.process.returncode}\n{started.text()}')
        if left := started.left_over():
            raise Failure(f'{left} are left over')


def by_hand():
    """Under mpiexec it says that it cannot start itself again, and trains."""
    Job(PROGRAM, {'workers': 2}, command=['mpiexec.mpich', '-n', '2']).expect(
        0, 'cannot start itself again', 'OK with 2 workers')


def two_launches():
    """Each launch of a program has its own workers."""
    job([(1, 'program: in backward', 3, 9)], workers=3, launches=2).expect(
        0, 'OK with 3 workers', 'second OK with 2 workers')


def launcher_hangs():
    """A launcher that starts nobody and does not end is given up; one that is no program is refused."""
    with tempfile.TemporaryDirectory() as folder:
        launcher = pathlib.Path(folder, 'launcher')
        launcher.write_text('#!/bin/sh\nexec sleep 1000\n')
        launcher.chmod(0o755)
        Job(PROGRAM, {'workers': 2, 'rejoin': 1}, mpiexec=str(launcher)).expect(1, 'could not start the workers for')
        Job(PROGRAM, {'workers': 2}, mpiexec=folder).expect(1, 'begins with no program')


def standard_input():
    """It is rank 0's; the others come to its end at once."""
    Job(PROGRAM, {'workers': 3, 'read': 1}, text='a\nb\n').expect(
        0, 'rank 0 has read 2 lines', 'rank 1 has read 0 lines', 'rank 2 has read 0 lines', 'OK with 3 workers')


def nodes():
    """Pretended nodes, of which each keeps the whole state; one is lost as a whole."""
    os.environ['HVD_ALGORITHM'] = 'hierarchical'  # what Auto measures differs between jobs
    for hosts in ('n0:2,n1:2', 'n0:3,n1:1'):
        mpiexec = f'mpiexec.mpich -launcher fork -hosts {hosts}'
        wanted = result_of(Job(PROGRAM, {'workers': 4}, mpiexec=mpiexec).expect(0, 'OK'))
        faults = [(2, 'program: in backward', 3, 9), (3, 'program: in backward', 3, 9)]
        text = Job(PROGRAM, {'workers': 4}, faults, mpiexec=mpiexec).expect(0, 'the job goes on')
        expect_same(text, wanted)


CASES = {f.__name__: f for f in (no_fault, causes, places, after_the_last_step, stopped_in_starting, in_recovery,
                                 two_at_once, shrinking, below_the_minimum, deterministic_crash, exception,
                                 early_return, supervisor_dies, signals, others_die, by_hand, two_launches,
                                 launcher_hangs, standard_input, nodes)}


def main():
    if len(sys.argv) < 3:
        print(*CASES, sep='\n')
        return 2
    for name in sys.argv[2:]:
        started = time.monotonic()
        try:
            CASES[name]()
        except Failure as e:
            print(f'{name}: {e}')
            return 1
        print(f'{name}: good after {time.monotonic() - started:.1f} s')
    return 0


if __name__ == '__main__':
    sys.exit(main())
