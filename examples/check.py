"""The documents say what is so: README shows quickstart.cpp, quoted sentences are those of the compiler, links lead
somewhere, and every line of hvd in fashion_mnist is marked."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
DOCUMENTS = [ROOT / 'README.md', *sorted((ROOT / 'docs').glob('*.md'))]


def quickstart():
    blocks = re.findall(r'```cpp\n(.*?)```', (ROOT / 'README.md').read_text(), re.S)
    if (ROOT / 'examples/quickstart.cpp').read_text() not in blocks:
        yield 'README.md does not show examples/quickstart.cpp as it is'


def marks():
    for path in sorted((ROOT / 'examples/fashion_mnist').iterdir()):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            code, _, comment = line.partition('//')
            if re.search(r'\bhvd\b|\bHVD_|\bworld\.', code) and not comment.startswith(' hvd'):
                yield f'{path.name}:{number}: a line of hvd without // hvd'


def headers():
    """All string literals, those that follow each other joined."""
    text = '\n'.join(path.read_text() for path in sorted((ROOT / 'include').rglob('*.hpp')))
    return ''.join(re.sub(r'"\s*\n\s*"', '', text).split())


def sentences():
    """In tensors.md every `hvd: ...`; in custom_tensor.cpp the comments below the refused lines."""
    source = headers()
    code = re.sub(r'\n\s*//   (?! *hvd:)', ' ', (ROOT / 'examples/custom_tensor.cpp').read_text())
    quotes = [('custom_tensor.cpp', q) for q in re.findall(r'//   (hvd: .*)', code)]
    quotes += [('tensors.md', q) for q in re.findall(r'`(hvd: [^`]*)`', (ROOT / 'docs/tensors.md').read_text())]
    if len(quotes) < 10:
        yield f'only {len(quotes)} sentences were found to compare'
    for name, quote in quotes:
        if ''.join(quote.split()) not in source:
            yield f'{name}: hvd does not say: {quote}'


def links():
    for path in DOCUMENTS:
        text = re.sub(r'```.*?```|`[^`]*`', '', path.read_text(), flags=re.S)
        for target in re.findall(r'\]\(([^)#]+)[^)]*\)', text):
            if '://' not in target and not (path.parent / target).exists():
                yield f'{path.relative_to(ROOT)}: there is no {target}'


def main():
    complaints = [c for check in (quickstart, marks, sentences, links) for c in check()]
    print(*complaints, sep='\n')
    print(f'{len(DOCUMENTS)} documents, {len(complaints)} complaints')
    return bool(complaints)


if __name__ == '__main__':
    sys.exit(main())
