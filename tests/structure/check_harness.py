"""The test harness itself: whatever goes wrong in a test program ends it soon, with the right code and its name."""
import argparse
import os
import re
import subprocess
import sys
import time

SILENCE = 2  # seconds until the watchdog of the programs bites, here

# test case of the program, exit code ('bad': any but 0 and the code of a skip), patterns that the output contains
PLAIN = [
    ('passes', 0, [r'SUCCESS']),
    ('require', 'bad', [r'misbehaves\.cpp:\d+', r'2 == 3']),
    ('throw', 'bad', [r'thrown on purpose']),
    ('hang', 'bad', [r"\d s of silence in test case 'hang'"]),
    ('worker exits', 1, [r'hvd: a worker called exit before the job was done']),
    ('slow but alive', 0, [r'SUCCESS']),
]
RANKED = [
    ('passes', 0, [r'\[rank 0\].*SUCCESS', r'\[rank 1\].*SUCCESS']),
    ('check', 'bad', [r'\[rank 0\].*SUCCESS', r'\[rank 1\].*mpi_misbehaves\.cpp:\d+']),
    ('require', 'bad', [r"\[rank 1\].*mpi_misbehaves\.cpp:\d+: in test case 'require'", r'\[rank 1\] +with size\(\) := 2']),
    ('fail', 'bad', [r"\[rank 1\].*mpi_misbehaves\.cpp:\d+: in test case 'fail'.*: on purpose"]),
    ('throw', 'bad', [r"\[rank 1\] test case 'throw' \(.*mpi_misbehaves\.cpp:\d+\) threw: thrown on purpose"]),
    ('throw in check', 'bad', [r"\[rank 1\].*mpi_misbehaves\.cpp:\d+: in test case 'throw in check'", r'thrown on purpose']),
    ('hang', 'bad', [r"\[rank [01]\] \d s of silence in test case 'hang'"]),
    ('hang while others are done', 'bad', [r"\[rank 1\] \d s of silence in test case 'hang while others are done'"]),
    ('exit', 'bad', []),
]


def run(title, command, code, patterns, env=None):
    start = time.monotonic()
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60,
                              env={**os.environ, 'HVD_TEST_SILENCE': str(SILENCE), **(env or {})})
        got, output = done.returncode, done.stdout
    except subprocess.TimeoutExpired as e:
        got, output = 'hung', (e.stdout or b'').decode(errors='replace')
    complaints = [f'no line like {p!r}' for p in patterns if not re.search(p, output)]
    if (got in (0, 77, 'hung')) if code == 'bad' else (got != code):
        complaints.append(f'exit code {got}, expected {code}')
    print(f'{"FAILED" if complaints else "ok"}: {title} ({time.monotonic() - start:.1f} s)', flush=True)
    if complaints:
        print(*complaints, 'output:', output, sep='\n')
    return not complaints


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('program')
    parser.add_argument('--mpiexec', help='the launcher and its arguments, without -n')
    parser.add_argument('--other-mpiexec', help='the launcher of another MPI, where there is one')
    args = parser.parse_args()
    good = True
    if not args.mpiexec:
        for case, code, patterns in PLAIN:
            good &= run(case, [args.program, f'--test-case={case}'], code, patterns)
        return good
    launch = [*args.mpiexec.split(), '-n']
    for case, code, patterns in RANKED:
        good &= run(case, [*launch, '2', args.program, '--ranks=2', f'--test-case={case}'], code, patterns)
    passes = [args.program, '--test-case=passes']
    good &= run('too few ranks', [*launch, '2', *passes, '--ranks=3'], 77, [r'skipped: needs 3 ranks, has 2'])
    good &= run('no launcher', [*passes, '--ranks=3'], 77, [r'skipped: needs 3 ranks, has 1'])
    good &= run('ranks from the environment', [*launch, '2', *passes], 77, [r'needs 3 ranks, has 2'],
                {'HVD_TEST_RANKS': '3'})
    if args.other_mpiexec:
        good &= run('the launcher of another MPI', [args.other_mpiexec, '-n', '2', *passes, '--ranks=2'], 'bad',
                    [r'the launcher started 2 ranks, MPI sees 1'])
    return good


if __name__ == '__main__':
    sys.exit(not main())
