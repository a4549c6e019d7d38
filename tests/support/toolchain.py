"""What the checks written in Python share: where things are, what includes what, and how to compile."""
import json
import pathlib
import re
import shlex
import shutil
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
INCLUDE = ROOT / 'include'
STANDARD = ['-std=c++20']
WARNINGS = ['-Wall', '-Wextra', '-Wpedantic', '-Wshadow', '-Wconversion', '-Werror']
# As in meson.build.
WITH_MPI = ['-DHVD_WITH_MPI', '-DMPICH_SKIP_MPICXX', '-DOMPI_SKIP_MPICXX']
WITH_ZLIB = ['-DHVD_WITH_ZLIB']


def headers():
    """All headers, by the name that a program includes: hvd/core/tensor.hpp."""
    return sorted(path.relative_to(INCLUDE).as_posix() for path in (INCLUDE / 'hvd').rglob('*.hpp'))


def text(header):
    return (INCLUDE / header).read_text()


def includes(header):
    """What a header includes itself: (line number, name), own headers as in headers(), others as written."""
    for number, line in enumerate(text(header).splitlines(), 1):
        match = re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', line)
        if match:
            beside = (INCLUDE / header).parent / match[2]
            if match[1] == '"' and beside.is_file():
                yield number, beside.resolve().relative_to(INCLUDE).as_posix()
            else:
                yield number, match[2]


def closure(header):
    """All that a header includes, through our own headers: name -> the way to it."""
    ways = {header: [header]}
    todo = [header]
    while todo:
        here = todo.pop()
        if not (INCLUDE / here).is_file():
            continue
        for _, name in includes(here):
            if name not in ways:
                ways[name] = ways[here] + [name]
                todo.append(name)
    return ways


class Dependency:
    """A dependency that Meson found, with what compiling and linking against it takes."""

    def __init__(self, entry):
        self.name = entry['name']
        self.compile = entry['compile_args']
        self.link = entry['link_args']


def dependencies(build):
    """The dependencies of a build folder: {'mpi': ..., 'zlib': ...}, without those that were not found."""
    found = {}
    for entry in json.loads((pathlib.Path(build) / 'meson-info/intro-dependencies.json').read_text()):
        key = 'mpi' if entry['name'] in ('mpich', 'ompi-c', 'mpi') else entry['name']
        found[key] = Dependency(entry)
    return found


def configurations(build):
    """The ways to compile against hvd here: {name: flags}. Optional parts are all off or all on."""
    found = dependencies(build)
    flags = []
    if 'mpi' in found:
        flags += WITH_MPI + found['mpi'].compile
    if 'zlib' in found:
        flags += WITH_ZLIB + found['zlib'].compile
    plain = ['-I', str(INCLUDE), '-pthread']
    return {'plain': plain, 'all': plain + flags} if flags else {'plain': plain}


def compiler(command):
    """'ccache g++' as a list, or nothing when it is not there."""
    words = shlex.split(command)
    return words if words and shutil.which(words[0]) else None


def compile_text(command, source, folder=None):
    """Compiles C++ text given as a string; (whether it did, what the compiler said)."""
    done = subprocess.run([*command, '-x', 'c++', '-'], input=source, text=True, cwd=folder,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.returncode == 0, done.stdout
