"""All sources are formatted as .clang-format says. With --fix: they are from now on."""
import argparse
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ['include', 'tests', 'examples', 'benchmarks']
VERSION = '14'  # others format some things differently


def find_clang_format():
    for name in (f'clang-format-{VERSION}', 'clang-format'):
        if shutil.which(name):
            version = subprocess.run([name, '--version'], capture_output=True, text=True).stdout
            if re.search(rf'version {VERSION}\.', version):
                return name
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--fix', action='store_true')
    parser.add_argument('files', nargs='*', help='default: all')
    args = parser.parse_args()
    program = find_clang_format()
    if not program:
        print(f'skipped: no clang-format {VERSION}')
        return 77
    files = args.files or sorted(
        str(path) for folder in FOLDERS for path in (ROOT / folder).rglob('*') if path.suffix in ('.hpp', '.cpp', '.cu'))
    how = ['-i'] if args.fix else ['--dry-run', '-Werror']
    done = subprocess.run([program, '--style=file', *how, *files], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True)
    wrong = sorted(set(re.findall(r'^(.*?):\d+:\d+: error', done.stdout, re.M)))
    for path in wrong:
        print(f'{path}: not formatted; run {pathlib.Path(__file__).name} --fix')
    print(f'{len(files)} files, {len(wrong)} not formatted')
    return done.returncode


if __name__ == '__main__':
    sys.exit(main())
