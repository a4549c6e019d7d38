"""Adds up the results of Meson test runs: count.py LOG... prints 'N passed, N failed, N skipped'.

A LOG is a testlog.json, or NAME=failed for a step that did not get so far. Exit code 1 when anything failed.
"""
import json
import pathlib
import sys

PASSED = ('OK', 'EXPECTEDFAIL')
SKIPPED = ('SKIP',)


def main(logs):
    passed, skipped, failed = 0, [], []
    for log in logs:
        if log.endswith('=failed'):
            failed.append(log.removesuffix('=failed'))
            continue
        folder = pathlib.Path(log).parents[1].name
        for line in pathlib.Path(log).read_text().splitlines():
            test = json.loads(line)
            name = f'{folder}: {test["name"].split(" / ")[-1]}'
            if test['result'] in PASSED:
                passed += 1
            elif test['result'] in SKIPPED:
                skipped.append(name)
            else:
                failed.append(f'{name} ({test["result"]})')
    for title, names in (('Skipped', skipped), ('Failed', failed)):
        if names:
            print(f'{title}:', *names, sep='\n  ')
    print(f'{passed} passed, {len(failed)} failed, {len(skipped)} skipped')
    return 1 if failed or not passed else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
