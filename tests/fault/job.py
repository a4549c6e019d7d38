"""Starts a job that supervises itself, finds its processes, and kills them."""
import os
import pathlib
import subprocess
import tempfile
import time

PATIENCE = 120  # seconds after which a job is said to hang


class Failure(Exception):
    pass


def read(path):
    try:
        return pathlib.Path(path).read_bytes()
    except OSError:
        return b''


def children(pid):
    return [int(word) for word in read(f'/proc/{pid}/task/{pid}/children').split()]


def descendants(pid):
    found = []
    for child in children(pid):
        found += [child, *descendants(child)]
    return found


def is_alive(pid):
    stat = read(f'/proc/{pid}/stat')
    return bool(stat) and stat.rpartition(b')')[2].split()[0] != b'Z'


class Job:
    """`faults` is a list of (rank, point, time, signal); each happens once, or as often as it can with `again`.
    `text` is its standard input."""

    def __init__(self, program, settings=None, faults=(), again=False, command=(), mpiexec=None, text=""):
        self.folder = tempfile.TemporaryDirectory(prefix='hvd-fault-')
        environment = dict(os.environ)
        if mpiexec:
            environment['HVD_MPIEXEC'] = mpiexec
        for key, value in (settings or {}).items():
            environment['HVD_TEST_' + key.upper()] = str(value)
        texts = []
        for i, (rank, point, count, signal) in enumerate(faults):
            token = pathlib.Path(self.folder.name, f'fault{i}')
            token.touch()
            texts.append(f'{rank}|{point}|{count}|{signal}|{"" if again else token}')
        environment['HVD_TEST_FAULTS'] = ';'.join(texts)
        self.out = open(pathlib.Path(self.folder.name, 'out'), 'w+')
        self.err = open(pathlib.Path(self.folder.name, 'err'), 'w+')
        self.program = os.path.realpath(program)
        self.started = time.monotonic()
        given = pathlib.Path(self.folder.name, 'in')
        given.write_text(text)
        with open(given) as input_:
            self.process = subprocess.Popen([*command, program], env=environment, stdin=input_,
                                            stdout=self.out, stderr=self.err)
        self.seen = set()

    def processes(self):
        """Everything below the supervisor; `seen` keeps what there ever was."""
        found = descendants(self.process.pid)
        self.seen.update(found)
        return found

    def workers(self):
        """{rank: process} of the workers that run the program."""
        found = {}
        for pid in self.processes():
            try:
                if os.readlink(f'/proc/{pid}/exe') != self.program:
                    continue
            except OSError:
                continue
            for variable in read(f'/proc/{pid}/environ').split(b'\0'):
                name, _, value = variable.partition(b'=')
                if name in (b'PMI_RANK', b'OMPI_COMM_WORLD_RANK'):
                    found[int(value)] = pid
        return found

    def all_workers(self):
        """The processes that run the program, also those that have the rank of another."""
        found = []
        for pid in self.processes():
            try:
                if os.readlink(f'/proc/{pid}/exe') == self.program:
                    found.append(pid)
            except OSError:
                pass
        return found

    def wait(self, patience=PATIENCE):
        end = self.started + patience
        while self.process.poll() is None:
            self.processes()
            if time.monotonic() > end:
                text = self.text()
                self.kill()
                raise Failure(f'the job hangs\n{text}')
            time.sleep(0.02)
        return self.process.returncode

    def kill(self):
        for pid in [*self.processes(), self.process.pid]:
            try:
                os.kill(pid, 9)
            except ProcessLookupError:
                pass
        self.process.wait()

    def text(self):
        return ''.join(read(pathlib.Path(self.folder.name, name)).decode(errors='replace') for name in ('out', 'err'))

    def left_over(self, patience=5):
        """Processes of the job that are there some time after its end."""
        end = time.monotonic() + patience
        while left := [pid for pid in self.seen if is_alive(pid)]:
            if time.monotonic() > end:
                return left
            time.sleep(0.02)
        return []

    def expect(self, code, *texts, without=()):
        actual = self.wait()
        text = self.text()
        if actual != code:
            raise Failure(f'code {actual} instead of {code}\n{text}')
        for wanted in texts:
            if wanted not in text:
                raise Failure(f'"{wanted}" is not in\n{text}')
        for unwanted in ('BAD TERMINATION', 'Killed', *without):
            if unwanted in text:
                raise Failure(f'"{unwanted}" is in\n{text}')
        if left := self.left_over():
            raise Failure(f'processes {left} are left over\n{text}')
        return text
