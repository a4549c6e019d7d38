"""Random failures: schedules.py PROGRAM [--seed S] [--count N]. Each schedule is made from its own seed, which is printed:
--seed S --count 1 plays that one again. Faults at places of the protocol come exactly again, those by the clock nearly."""
import argparse
import collections
import os
import pathlib
import random
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from job import PATIENCE, Failure, Job, is_alive  # noqa: E402

POINTS = ['program: before launch', 'body: before it', 'restore: before an object', 'restore: after an object',
          'program: in backward', 'step: before its commit', 'commit: before the slot', 'commit: the slot is open',
          'commit: the slot is half written', 'commit: the slot is not marked yet', 'commit: the slot is whole',
          'commit: all shares are in', 'program: between steps', 'body: after it', 'body: all have left it',
          'program: after launch']
ONCE = {'program: before launch', 'body: before it', 'body: after it', 'body: all have left it', 'program: after launch'}
WAYS = [signal.SIGKILL, signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT, signal.SIGSTOP, -2, -3]
SIGNALS = [signal.SIGKILL, signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT, signal.SIGSTOP]
EPOCHS = 2


def make(seed, policy_=None):
    """The schedule of a seed: settings, faults at places, and kills by the clock (when, whom, signal)."""
    rng = random.Random(seed)
    workers = rng.randint(2, 8)
    policy = rng.choice(['replace', 'replace', 'shrink'])
    policy = policy_ or policy
    settings = {'workers': workers, 'policy': policy, 'deadline': 3, 'samples': 120 * workers, 'epochs': EPOCHS}
    most = workers - 1 if policy == 'shrink' else 4
    faults, kills = [], []
    for _ in range(rng.randint(1, min(most, 4))):
        if rng.random() < 0.6:
            point = rng.choice(POINTS)
            time_ = 1 if point in ONCE else rng.randint(1, 3) if point.startswith('restore') else rng.randint(1, 30)
            faults.append((rng.randrange(workers), point, time_, int(rng.choice(WAYS))))
        else:
            whom = rng.choice(['worker'] * 8 + ['sh', 'proxy', 'mpiexec'])
            kills.append((rng.uniform(0.0, 1.2), whom, rng.randrange(workers), int(rng.choice(SIGNALS))))
    return settings, faults, sorted(kills)


def victim(job, whom, rank):
    if whom == 'worker':
        workers = job.workers()
        return workers.get(rank)
    for pid in job.processes():
        try:
            if whom in pathlib.Path(f'/proc/{pid}/comm').read_text() and is_alive(pid):
                return pid
        except OSError:
            pass
    return None


def result_of(text):
    return next((line for line in text.splitlines() if line.startswith('OK')), None)


def play(program, seed, undisturbed, policy=None, in_place=False):
    settings, faults, kills = make(seed, policy)
    job = Job(program, settings, faults)
    for when, whom, rank, number in kills:
        while time.monotonic() < job.started + when and job.process.poll() is None:
            time.sleep(0.005)
        pid = victim(job, whom, rank)
        if pid is not None and job.process.poll() is None:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass
    code = job.wait(PATIENCE)
    text = job.text()
    result = result_of(text)
    if code == 1 and 'for the third time, so the job ends' in text:
        return 'the same death three times'  # by chance, which is to end the job
    if code != 0 or result is None:
        raise Failure(f'code {code}\n{text}')
    if settings['policy'] == 'replace' and not in_place and result != undisturbed(settings):
        raise Failure(f'{undisturbed(settings)} would be right\n{text}')
    if left := job.left_over():
        raise Failure(f'processes {left} are left over\n{text}')
    return text.count('the job goes on')


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('program')
    parser.add_argument('--seed', type=int, default=random.randrange(1000000))
    parser.add_argument('--count', type=int, default=100)
    parser.add_argument('--policy', choices=['replace', 'shrink'], help='for all (default: some of each)')
    parser.add_argument('--in-place', action='store_true',
                        help='survivors go on, so that the number of workers changes and with it every rounding')
    options = parser.parse_args()
    os.environ.setdefault('HVD_ALGORITHM', 'ring')  # so that results can be compared bit by bit between jobs
    results = {}

    def undisturbed(settings):
        workers = settings['workers']
        if workers not in results:
            results[workers] = result_of(Job(options.program, settings).expect(0, 'OK'))
        return results[workers]

    restarts, bad = collections.Counter(), []
    shared = set(os.listdir('/dev/shm'))
    for seed in range(options.seed, options.seed + options.count):
        try:
            restarts[play(options.program, seed, undisturbed, options.policy, options.in_place)] += 1
        except Failure as e:
            bad.append(seed)
            print(f'seed {seed}: {make(seed, options.policy)}\n{e}', flush=True)
    left = set(os.listdir('/dev/shm')) - shared
    print(f'{options.count - len(bad)} of {options.count} schedules from seed {options.seed} were good; times started again: '
          f'{dict(sorted(restarts.items(), key=str))}; bad: {bad}; left in /dev/shm: {sorted(left)}')
    return 1 if bad else 0


if __name__ == '__main__':
    sys.exit(main())
