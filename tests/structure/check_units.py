"""Two translation units that include everything, one with the optional parts and one without, link and run."""
import argparse
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'support'))
import toolchain  # noqa: E402

UNIT = '''
// Both units instantiate the same templates and run them.
int {name}();
int {name}() {{
    return hvd::launch<hvd::Local>(2, [](auto& world) {{
        std::vector<float> v(3, static_cast<float>(world.rank() + 1));
        hvd::allreduce(world, v);
        if (v[2] != 3.0f) throw std::runtime_error{{"wrong sum"}};
    }});
}}
'''
MAIN = '''
int other();
int main() { return own() + other(); }
'''


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--build', required=True, help='the Meson build folder, for the flags of MPI and zlib')
    parser.add_argument('--compiler', required=True)
    args = parser.parse_args()
    compiler = toolchain.compiler(args.compiler)
    if not compiler:
        print(f'skipped: no {args.compiler}')
        return 77
    # Adapters need the libraries that they adapt.
    includes = [header for header in toolchain.headers() if not header.startswith('hvd/adapter/')]
    everything = ''.join(f'#include <{header}>\n' for header in includes) + '#include <stdexcept>\n#include <vector>\n'
    configurations = toolchain.configurations(args.build)
    flags = [*compiler, *toolchain.STANDARD, *toolchain.WARNINGS]
    with tempfile.TemporaryDirectory() as folder:
        units = {
            'with.o': (configurations.get('all', configurations['plain']), UNIT.format(name='own') + MAIN),
            'without.o': (configurations['plain'], UNIT.format(name='other')),
        }
        for name, (configuration, body) in units.items():
            good, said = toolchain.compile_text([*flags, *configuration, '-c', '-o', name], everything + body, folder)
            if not good:
                print(f'{name} does not compile:\n{said}')
                return 1
        link = [arg for dependency in toolchain.dependencies(args.build).values() for arg in dependency.link]
        if subprocess.run([*compiler, *units, '-pthread', *link, '-o', 'both'], cwd=folder).returncode != 0:
            return 1
        code = subprocess.run([pathlib.Path(folder) / 'both'], timeout=60).returncode
    print(f'{args.compiler}: {len(includes)} headers in two units, exit code {code}')
    return code


if __name__ == '__main__':
    sys.exit(main())
