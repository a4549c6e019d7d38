"""The runner of the compile-fail tests finds each thing that it is there to find."""
import pathlib
import subprocess
import sys
import tempfile

RUNNER = pathlib.Path(__file__).resolve().parents[1] / 'compile_fail/run.py'

HEADER = '''
#pragma once
template <class T>
void door(T) {
    static_assert(sizeof(T) == 1, "hvd: this is not a char; pass one");
}
template <class T>
void broken_door(T x) {
    door(x);
    x.no_such_member();
}
'''
# (what the runner says of case 1, the body of the case)
CASES = [
    (None, '// expect: this is not a char\ndoor(1);'),
    (None, '// expect: this is not a char\nint x = door(1);'),
    ('it compiles', "// expect: this is not a char\ndoor('1');"),
    ('no "something else" in', '// expect: something else\ndoor(1);'),
    ('0 errors that begin', '// expect: this is not a char\nno_such_name;'),
    ('2 errors that begin', '// expect: this is not a char\ndoor(1);\ndoor(1.0);'),
    ('1 errors beside', '// expect: this is not a char\nbroken_door(1);'),
    ('says nothing', 'door(1);'),
]


def main():
    good = True
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / 'case.cpp'
        (source.parent / 'door.hpp').write_text(HEADER)
        start = '#include "door.hpp"\nint main() {\n'
        for complaint, body in CASES:
            source.write_text(f'{start}#if CASE == 1\n{body}\n#endif\n}}\n')
            done = subprocess.run([sys.executable, RUNNER, source], text=True, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT)
            right = done.returncode == 0 if complaint is None else done.returncode != 0 and complaint in done.stdout
            print(f'{"ok" if right else "FAILED"}: {complaint or "nothing to find"}')
            if not right:
                print(body, done.stdout, sep='\n')
            good &= right
        source.write_text(f'{start}no_such_name;\n#if CASE == 1\n// expect: this is not a char\ndoor(1);\n#endif\n}}\n')
        said = subprocess.run([sys.executable, RUNNER, source], text=True, capture_output=True).stdout
        if 'it does not compile' not in said:
            print('FAILED: case 0 does not compile, and that is not found:', said, sep='\n')
            good = False
    return 0 if good else 1


if __name__ == '__main__':
    sys.exit(main())
