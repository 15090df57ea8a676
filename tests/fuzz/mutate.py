"""Random changes of bytes, text and trees of plain data. All randomness comes from the `Random` that is given."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any

NUMBERS: Sequence[Any] = (
    0, -1, 1, 2, 3, 7, 255, 256, 65536, 2**31 - 1, 2**31, 2**32, 2**53, 2**62, 2**63, 10**17, 10**30, 0.0, -0.0, 0.5,
    1e-9, 1e-300, 5e-324, 1e15, 1e16, 1e300, 1.7976931348623157e308, float("inf"), float("-inf"), float("nan"),
)  # fmt: skip
WORDS = (
    "", " ", "*", "**", "a" * 300, "x" * 100_000, "../../etc/passwd", "/dev/zero", "/dev/null", "é", "\u202e", "\ud800",
    "\x00", "\x1b[31mred", "a\nb", "true", "null", "~", "1e3", "2020-13-45", "2001-01-01", "1:30:00", "0x10", "[red]",
    "%s", "{}", "-", "None", "float32", "default", ".", "..", "CON",
)  # fmt: skip
_NUMBER = re.compile(rb"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
_WORD = re.compile(rb"[A-Za-z_][\w-]*")

#: Pieces of text that parsers find hard.
HOSTILE = (
    b"&a [*a, *a]", b"*a", b"<<: *a", b"!!python/object:os.system x", b"!!int abc", b"!!float x", b"!!bool x",
    b"!!timestamp x", b"!!binary eA==", b"!!set {a}", b"2001-02-30", b"9" * 5000, b"-" + b"1" * 4000,
    b"1" + b":59" * 4000, b"[" * 3000, b"{" * 3000, b"- " * 3000, b"{a: " * 3000, b"[[[[[[[[[[", b"? ", b"---\n",
    b"...\n", b"%YAML 9.9\n", b"\x00", b"\x1b[2J", b"\x7f", b"\xff\xfe", b"\xef\xbb\xbf", b"\xc2\x85", b"\xe2\x80\xa8",
    b'"\\ud800"', b'"\\x1b"', b"'", b'"', b"#", b"|", b">", b"\t", b"\r", b",,,,", b"::", b"0o17", b"0b11", b".inf",
    b"NaN", b"Infinity", b"1e999", b"null", b"\\u0000", b"a" * 100_000, b"extends: [a, a]\n", b"extends: case\n",
)  # fmt: skip


def changed_bytes(random: Random, content: bytes) -> bytes:
    """A few changes of single bytes, or of slices."""
    made = bytearray(content)
    for _ in range(random.choice((1, 1, 2, 4, 16))):
        at = random.randrange(len(made) + 1)
        size = random.choice((1, 1, 2, 4, 8, 64, 1024))
        change = random.randrange(8)
        if change == 0 and at < len(made):
            made[at] ^= 1 << random.randrange(8)
        elif change == 1 and at < len(made):
            made[at] = random.choice((0, 1, 0x7F, 0x80, 0xFF, random.randrange(256)))
        elif change == 2:
            del made[at : at + size]
        elif change == 3:
            made[at:at] = random.randbytes(size)
        elif change == 4:
            made[at:at] = made[at : at + size]
        elif change == 5:
            other = random.randrange(len(made) + 1)
            made[at : at + size] = made[other : other + size]
        elif change == 6:
            made[at : at + 8] = random.choice((2**31, 2**32 - 1, 2**62, 2**63, 2**64 - 1, 0)).to_bytes(8, "little")
        else:
            del made[at:]
    return bytes(made)


def changed_text(random: Random, content: bytes) -> bytes:
    """A few changes of numbers, words and lines."""
    for _ in range(random.choice((1, 1, 2, 3, 8))):
        content = random.choice(_TEXT)(random, content)
    return content


def _number(random: Random, content: bytes) -> bytes:
    return _replaced(random, content, _NUMBER, lambda _: repr(random.choice(NUMBERS)).encode())


def _scaled(random: Random, content: bytes) -> bytes:
    factor = random.choice((0.0, -1.0, 0.001, 0.5, 3.0, 1e3, 1e9))
    return _replaced(random, content, _NUMBER, lambda old: repr(float(old) * factor).encode())


def _word(random: Random, content: bytes) -> bytes:
    words = _WORD.findall(content) or [b""]
    new = random.choice((random.choice(words), random.choice(WORDS).encode("utf-8", "surrogatepass")))
    return _replaced(random, content, _WORD, lambda _: new)


def _replaced(random: Random, content: bytes, pattern: re.Pattern[bytes], new: Callable[[bytes], bytes]) -> bytes:
    found = list(pattern.finditer(content))
    if not found:
        return content
    one = random.choice(found)
    return content[: one.start()] + new(one[0]) + content[one.end() :]


def _hostile(random: Random, content: bytes) -> bytes:
    at = random.choice([0, len(content), *(m.end() for m in re.finditer(rb"[\n:,\[\{] ?", content))])
    return content[:at] + random.choice(HOSTILE) + content[at:]


def _lines(random: Random, content: bytes) -> bytes:
    lines = content.splitlines(keepends=True) or [b""]
    i, j = random.randrange(len(lines)), random.randrange(len(lines))
    change = random.randrange(5)
    if change == 0:
        del lines[i]
    elif change == 1:
        lines.insert(j, lines[i])
    elif change == 2:
        lines[i], lines[j] = lines[j], lines[i]
    elif change == 3:
        lines[i] = b"  " + lines[i]
    else:
        lines[i:i] = lines[min(i, j) : max(i, j)] * random.choice((1, 2, 50))
    return b"".join(lines)


_TEXT = (_number, _number, _scaled, _word, _word, _hostile, _lines, changed_bytes)


def changed_tree(random: Random, tree: Any) -> Any:
    """A copy of plain data (maps, lists, scalars) with a few changes."""
    made = copy.deepcopy(tree)
    for _ in range(random.choice((1, 1, 2, 3, 6))):
        places = list(_places(made))
        if not places:
            return random.choice((made, None, [], {}, *NUMBERS))
        holder, key = random.choice(places)
        random.choice(_TREE)(random, made, holder, key)
    return made


def _places(tree: Any) -> Iterator[tuple[Any, Any]]:
    """Every (holder, key) in a tree."""
    inner = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in list(inner):
        yield tree, key
        yield from _places(value)


def _to_number(random: Random, _: Any, holder: Any, key: Any) -> None:
    holder[key] = random.choice(NUMBERS)


def _scale(random: Random, _: Any, holder: Any, key: Any) -> None:
    old = holder[key]
    if isinstance(old, int | float) and not isinstance(old, bool):
        new = old * random.choice((-1, 0, 2, 10, 1000, 10**6, 0.001, 1e-6))
        holder[key] = int(new) if isinstance(old, int) and abs(new) < 1e300 else new


def _to_word(random: Random, _: Any, holder: Any, key: Any) -> None:
    holder[key] = random.choice(WORDS)


def _remove(random: Random, _: Any, holder: Any, key: Any) -> None:
    del holder[key]


def _other_type(random: Random, _: Any, holder: Any, key: Any) -> None:
    old = holder[key]
    holder[key] = random.choice((None, True, [], {}, [old], {"a": old}, str(old), [[old]] * 3, [None] * 1000))


def _rename(random: Random, _: Any, holder: Any, key: Any) -> None:
    if isinstance(holder, dict):
        holder[random.choice((*WORDS, *map(str, holder), "extra"))] = holder.pop(key)


def _repeat(random: Random, _: Any, holder: Any, key: Any) -> None:
    if isinstance(holder, list):
        holder[key:key] = [copy.deepcopy(holder[key]) for _ in range(random.choice((1, 2, 30)))]
    else:
        holder[f"{key}-2"] = copy.deepcopy(holder[key])


def _transplant(random: Random, tree: Any, holder: Any, key: Any) -> None:
    other, its = random.choice(list(_places(tree)))
    holder[key] = copy.deepcopy(other[its])


def _nest(random: Random, _: Any, holder: Any, key: Any) -> None:
    for _ in range(random.choice((3, 25, 60))):
        holder[key] = [holder[key]] if random.random() < 0.5 else {"a": holder[key]}


_TREE = (
    _to_number, _to_number, _scale, _scale, _scale, _to_word, _remove, _remove, _other_type, _rename, _repeat,
    _transplant, _nest,
)  # fmt: skip
