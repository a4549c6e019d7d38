"""What can be told from the text of the headers: layers, length, macros, heavy includes."""
import argparse
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'support'))
import toolchain  # noqa: E402

# Each layer and the layers it may include, beside itself. None: all.
LAYERS = {
    'core': [],
    'device': ['core'],
    'transport': ['core', 'device'],
    'algorithm': ['core', 'transport'],
    'elastic': ['core', 'device', 'transport'],
    'comm': ['core', 'device', 'transport', 'algorithm', 'elastic'],
    'engine': ['core', 'device', 'transport', 'algorithm', 'elastic', 'comm'],
    'train': ['core', 'device', 'transport', 'algorithm', 'elastic', 'comm', 'engine'],
    'data': ['core', 'transport', 'algorithm', 'elastic', 'comm', 'engine'],
    'adapter': ['core'],
    'testing': None,
}
# The headers at the top, and what they may include. All but hvd.hpp may be included from everywhere.
TOP = {
    'hvd/version.hpp': [],
    'hvd/fwd.hpp': ['core'],
    'hvd/hvd.hpp': [layer for layer in LAYERS if layer not in ('adapter', 'testing')],
}
LONGEST = 400
LONGEST_ALGORITHM = 150
HEAVY = ['thread', 'map', 'random', 'regex', 'iostream']
LIGHT_LAYERS = ['core', 'algorithm']


def layer(header):
    parts = header.split('/')
    return parts[1] if len(parts) > 2 else None


def layers():
    """Includes run downward only, and in no circle."""
    known = set(toolchain.headers())
    for header in sorted(known):
        own = layer(header)
        if own is None and header not in TOP or own is not None and own not in LAYERS:
            yield f'{header}: in no known place'
            continue
        allowed = TOP[header] if own is None else LAYERS[own]
        for line, name in toolchain.includes(header):
            at = f'{header}:{line}'
            if not name.startswith('hvd/'):
                continue
            if name not in known:
                yield f'{at}: there is no {name}'
            elif layer(name) is None:
                if name == 'hvd/hvd.hpp' and own != 'testing':
                    yield f'{at}: includes the umbrella'
            elif allowed is not None and layer(name) not in [own, *allowed]:
                yield f'{at}: {own or header} must not include {layer(name)}/'
    for header in sorted(known):
        for _, name in toolchain.includes(header):
            if name in known and header in toolchain.closure(name) and header <= name:
                yield f'{header}: {name} includes it again'
    for header in ('hvd/hvd.hpp', 'hvd/fwd.hpp'):
        for name, way in (toolchain.closure(header) if header in known else {}).items():
            if layer(name) in ('adapter', 'testing') and name in known:
                yield f'{header}: leads to {name}: {" -> ".join(way)}'


def length():
    """A header can be read in one sitting."""
    for header in toolchain.headers():
        lines = toolchain.text(header).count('\n')
        limit = LONGEST_ALGORITHM if layer(header) == 'algorithm' else LONGEST
        if lines > limit:
            yield f'{header}: {lines} lines, at most {limit}'


def macros():
    """Only HVD_* macros are defined, and no others are changed."""
    for header in toolchain.headers():
        for number, line in enumerate(toolchain.text(header).splitlines(), 1):
            match = re.match(r'\s*#\s*(define|undef)\s+(\w+)', line) or re.search(r'pragma\s+(push_macro|pop_macro)\("(\w+)"', line)
            if match and not match[2].startswith('HVD_'):
                yield f'{header}:{number}: {match[1]} {match[2]}'
            if match and match[1] == 'define' and match[2].startswith('HVD_WITH_'):
                yield f'{header}:{number}: {match[2]} is for the user to define'


def heavy():
    """Heavy standard headers stay out of core and algorithm, also by way of our other headers."""
    for header in toolchain.headers():
        if layer(header) in LIGHT_LAYERS:
            ways = toolchain.closure(header)
            for name in HEAVY:
                if name in ways:
                    yield f'{header}: includes <{name}>: {" -> ".join(ways[name])}'


CHECKS = {'layers': layers, 'length': length, 'macros': macros, 'heavy': heavy}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('check', choices=CHECKS)
    check = CHECKS[parser.parse_args().check]
    complaints = list(check())
    print(*complaints, sep='\n')
    print(f'{check.__doc__} {len(toolchain.headers())} headers, {len(complaints)} complaints')
    return not complaints


if __name__ == '__main__':
    sys.exit(not main())
