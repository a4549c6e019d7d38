"""Every header compiles alone, and included twice, with the optional parts on and off."""
import argparse
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'support'))
import toolchain  # noqa: E402

# Headers that are included only where their library is; without it they are passed over.
FOREIGN = re.compile(r'hvd/(adapter/|device/|\w+/(mpi|nccl|zlib)_)')


def has_optional_part(header):
    """Whether it makes a difference which optional parts are on."""
    return bool(FOREIGN.match(header)) or any('HVD_WITH_' in toolchain.text(name) for name in toolchain.closure(header)
                                              if (toolchain.INCLUDE / name).is_file())


def lacks_library(header, said):
    missing = re.search(r"fatal error: '?([^':\s]+)'?:? (No such file|file not found)", said)
    return FOREIGN.match(header) and missing and not missing[1].startswith('hvd/') and missing[1]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--build', required=True, help='the Meson build folder, for the flags of MPI and zlib')
    parser.add_argument('--compiler', required=True)
    parser.add_argument('headers', nargs='*', help='hvd/core/tensor.hpp ...; default: all')
    args = parser.parse_args()
    compiler = toolchain.compiler(args.compiler)
    if not compiler:
        print(f'skipped: no {args.compiler}')
        return 77
    configurations = toolchain.configurations(args.build)
    failed = compiled = 0
    for header in args.headers or toolchain.headers():
        names = list(configurations) if has_optional_part(header) else ['plain']
        for name in names:
            command = [*compiler, *toolchain.STANDARD, *toolchain.WARNINGS, *configurations[name], '-fsyntax-only']
            good, said = toolchain.compile_text(command, f'#include <{header}>\n#include <{header}>\n')
            compiled += 1
            if not good and lacks_library(header, said):
                print(f'{header}: passed over, needs {lacks_library(header, said)}')
            elif not good:
                failed += 1
                print(f'{header} does not compile alone ({name}):\n{said}', flush=True)
    print(f'{args.compiler}: {compiled} compiled, {failed} failed')
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
