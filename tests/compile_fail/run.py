"""Programs that must not compile, and what the compiler must say.

A source is one program in numbered cases:

    #if CASE == 1
    // expect: a pointer does not say how many elements it has
    hvd::allreduce(world, &x);
    #endif

Case 0, the program without any of them, must compile. Each other case must fail with exactly one error of hvd's, one
that begins with `hvd: ` and contains the expected text. Other errors may only be in the source itself, where they
follow from the mistake. An `// expect: ` before the first #if holds for every case without its own.
"""
import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'support'))
import toolchain  # noqa: E402


def read_cases(source):
    """The text that each case expects: {1: 'a pointer does ...'}."""
    expected = {}
    general = None
    case = None
    for number, line in enumerate(source.read_text().splitlines(), 1):
        if match := re.match(r'\s*#\s*(?:el)?if\s+CASE\s*==\s*(\d+)\b', line):
            case = int(match[1])
            expected.setdefault(case, general)
        elif re.match(r'\s*#\s*endif', line):
            case = None
        elif match := re.match(r'\s*//\s*expect:\s*(.*\S)', line):
            if case is None:
                general = match[1]
            else:
                expected[case] = match[1]
    expected.pop(0, None)
    for case, text in expected.items():
        if not text:
            raise SystemExit(f'{source}: case {case} says nothing in // expect:')
    if not expected:
        raise SystemExit(f'{source}: no cases')
    return expected


def complaints_about(source, text, good, said):
    """What is wrong with the compiler's answer to a case that must fail."""
    if good:
        return ['it compiles']
    errors = re.findall(r'^(\S+?):(?:\d+:)+ (?:fatal )?error: (.*)$', said, re.M)
    of_hvd = [message for _, message in errors if 'hvd: ' in message]
    others = [f'{file}: {message}' for file, message in errors
              if 'hvd: ' not in message and pathlib.Path(file).resolve() != source]
    found = []
    if len(of_hvd) != 1:
        found.append(f'{len(of_hvd)} errors that begin with "hvd: ", not one')
    elif text not in of_hvd[0]:
        found.append(f'no "{text}" in "{of_hvd[0]}"')
    if others:
        found.append(f'{len(others)} errors beside: {others[0]}')
    return found


def precompiled(compiler, flags, folder):
    """Arguments that stand for `#include <hvd/hvd.hpp>`, which is then read once and not for each case."""
    header = pathlib.Path(folder) / f'{pathlib.Path(compiler[-1]).name}.hpp'
    header.write_text('#include <hvd/hvd.hpp>\n')
    is_clang = 'clang' in header.name
    made = header.with_suffix('.hpp.pch' if is_clang else '.hpp.gch')
    command = [*compiler, *toolchain.STANDARD, *flags, '-x', 'c++-header', str(header), '-o', str(made)]
    if subprocess.run(command, capture_output=True).returncode != 0:
        return []  # case 0 says what is wrong
    return ['-include-pch', str(made)] if is_clang else ['-include', str(header)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('source', type=pathlib.Path)
    parser.add_argument('--build', help='the Meson build folder: with its MPI and zlib, and without them otherwise')
    parser.add_argument('--compilers', nargs='+', default=['g++', 'clang++'])
    parser.add_argument('--case', type=int, help='only this one, and print what the compiler says')
    args = parser.parse_args()
    source = args.source.resolve()
    expected = read_cases(source)
    flags = ['-I', str(toolchain.INCLUDE), '-pthread']
    if args.build:
        configurations = toolchain.configurations(args.build)
        flags = configurations.get('all', configurations['plain'])
    compilers = [words for words in map(toolchain.compiler, args.compilers) if words]
    if not compilers:
        raise SystemExit(f'none of {args.compilers} is there')
    failed = compiled = 0
    folder = tempfile.TemporaryDirectory()
    for compiler in compilers:
        # A source that changes how hvd is configured must read it itself; one that does not read it has no use for it.
        text = source.read_text()
        reads_hvd = '#include <hvd/hvd.hpp>' in text and '#undef HVD_' not in text
        whole = precompiled(compiler, flags, folder.name) if reads_hvd else []
        for case in [0, *sorted(expected)] if args.case is None else [args.case]:
            command = [*compiler, *toolchain.STANDARD, *(toolchain.WARNINGS if case == 0 else []), *flags,
                       *whole, '-fsyntax-only', f'-DCASE={case}']
            good, said = toolchain.compile_text(command, f'#include "{source}"\n')
            compiled += 1
            if case == 0:
                found = [] if good else ['it does not compile']
            else:
                found = complaints_about(source, expected[case], good, said)
            if found:
                failed += 1
                print(f'{source.name} case {case}, {compiler[0]}: {"; ".join(found)}')
            if found or args.case is not None:
                print(said, flush=True)
    print(f'{source.name}: {compiled} compiled, {failed} wrong')
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
