"""All that this build compiles is understood by another compiler, without a warning."""
import argparse
import json
import pathlib
import shlex
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'support'))
import toolchain  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--build', required=True)
    parser.add_argument('--compiler', required=True)
    args = parser.parse_args()
    compiler = toolchain.compiler(args.compiler)
    if not compiler:
        print(f'skipped: no {args.compiler}')
        return 77
    failed = units = 0
    for entry in json.loads((pathlib.Path(args.build) / 'compile_commands.json').read_text()):
        if not entry['file'].endswith('.cpp'):
            continue
        words = shlex.split(entry['command'])
        first = next(i for i, word in enumerate(words) if word.startswith('-'))  # after `c++` or `ccache c++`
        flags = []
        rest = iter(words[first:])
        for word in rest:
            if word in ('-MQ', '-MF', '-o'):
                next(rest)
            elif word not in ('-MD', '-c', '-fdiagnostics-color=always'):
                flags.append(word)
        units += 1
        done = subprocess.run([*compiler, *flags, '-fsyntax-only'], cwd=entry['directory'], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode != 0:
            failed += 1
            print(f'{entry["file"]}:\n{done.stdout}', flush=True)
    print(f'{args.compiler}: {units} units, {failed} failed')
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
