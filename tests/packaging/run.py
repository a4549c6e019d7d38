"""A small program of a user's finds hvd in each of the ways that are promised, builds and runs."""
import argparse
import hashlib
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONSUMER = pathlib.Path(__file__).resolve().parent / 'consumer'
VENDORED = ['meson.build', 'meson_options.txt', 'include', 'LICENSE']  # what a subproject needs
OFF = [f'-D{part}=disabled' for part in ('tests', 'examples', 'benchmarks', 'docs')]


class Failure(Exception):
    pass


def run(*command, folder=None, env=None):
    done = subprocess.run([str(word) for word in command], cwd=folder, env={**os.environ, **(env or {})}, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != 0:
        raise Failure(f'{shlex.join(map(str, command))}: exit code {done.returncode}\n{done.stdout}')
    return done.stdout


def expect_ok(workers, *command, env=None):
    said = run(*command, env=env)
    if f'OK {workers}' not in said.splitlines():
        raise Failure(f'{shlex.join(map(str, command))} does not say OK {workers}:\n{said}')


class Ways:
    def __init__(self, args, folder):
        self.meson = shlex.split(args.meson)
        self.options = [f'-D{option}' for option in args.option]
        self.mpiexec = shlex.split(args.mpiexec or '')
        self.folder = folder

    def try_program(self, program, env=None):
        expect_ok(2, program, env=env)
        if self.mpiexec:
            expect_ok(2, *self.mpiexec, '-n', '2', program, 'mpi', env=env)

    def build_consumer(self, name, prepare=lambda source: None, options=(), env=None):
        source = self.folder / name
        shutil.copytree(CONSUMER, source)
        prepare(source)
        run(*self.meson, 'setup', source / 'build', source, *options, env=env)
        run('ninja', '-C', source / 'build', env=env)
        for unwanted in ('tests', 'examples', 'benchmarks', 'docs'):
            if list((source / 'build').rglob(f'subprojects/*/{unwanted}')):
                raise Failure(f'{name}: the subproject builds its {unwanted}')
        self.try_program(source / 'build/consumer', env)

    def subproject_options(self):
        return [option.replace('-D', '-Dhvd:', 1) for option in self.options]

    def bare_folder(self):
        """a folder subprojects/hvd"""
        def prepare(source):
            for name in VENDORED:
                copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
                (source / 'subprojects/hvd').mkdir(parents=True, exist_ok=True)
                copy(ROOT / name, source / 'subprojects/hvd' / name)
        self.build_consumer('bare', prepare, self.subproject_options())

    def wrap(self):
        """a wrap file, with an archive of a release"""
        def prepare(source):
            archive = source / 'subprojects/packagefiles/hvd.tar.gz'
            archive.parent.mkdir(parents=True)
            with tarfile.open(archive, 'w:gz') as tar:
                for name in VENDORED:
                    tar.add(ROOT / name, f'hvd-release/{name}')
            digest = hashlib.sha256(archive.read_bytes()).hexdigest()
            (source / 'subprojects/hvd.wrap').write_text(
                '[wrap-file]\ndirectory = hvd-release\nsource_filename = hvd.tar.gz\n'
                f'source_hash = {digest}\n\n[provide]\ndependency_names = hvd\n')
        self.build_consumer('wrap', prepare, [*self.subproject_options(), '--wrap-mode=nodownload'])

    def installed(self):
        """an installed prefix, by pkg-config"""
        prefix = self.folder / 'prefix'
        build = self.folder / 'build'
        run(*self.meson, 'setup', build, ROOT, '--prefix', prefix, '--libdir', 'lib', *OFF, *self.options)
        run(*self.meson, 'install', '-C', build)
        env = {'PKG_CONFIG_PATH': f'{prefix}/lib/pkgconfig:{os.environ.get("PKG_CONFIG_PATH", "")}'}
        self.build_consumer('installed', env=env)
        flags = run('pkg-config', '--cflags', '--libs', 'hvd', env=env).split()
        program = self.folder / 'by_hand'
        run('g++', '-std=c++20', CONSUMER / 'main.cpp', *flags, '-o', program, env=env)
        self.try_program(program)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('way', choices=['bare_folder', 'wrap', 'installed'])
    parser.add_argument('--meson', default='meson')
    parser.add_argument('--option', action='append', default=[], help='of hvd: mpi_library=openmpi')
    parser.add_argument('--mpiexec', help='the launcher and its arguments, where hvd finds MPI')
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        way = getattr(Ways(args, pathlib.Path(folder)), args.way)
        try:
            way()
        except Failure as e:
            print(f'FAILED: {way.__doc__}: {e}')
            return 1
    print(f'ok: {way.__doc__}')
    return 0


if __name__ == '__main__':
    sys.exit(main())
