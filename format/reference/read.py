#!/usr/bin/env python3
"""A reference reader of the trail format, for those who write a reader of their own.

usage: read.py [--golden | --verify] [OPTION]... TRAIL
       read.py [--golden | --verify] [OPTION]... --many <PATHS

It is written from format/FORMAT.md, and simple rather than fast: it holds a whole trail in memory. Its sections follow
the way from bytes to records:

    Numbers         what records.def lists
    Bytes           varints and strings
    Headers         of segments and blocks
    Scanning        the blocks of a segment, and what is torn or damaged
    Payloads        decryption, decompression
    Decoding        the items of a block
    Joining         data parts; further relations and objects
    Transactions    which statements were rolled back
    Strings, values how they are shown
    Shown form      JSON as "steno cat --format json" prints it, and the lines of format/golden
    Verification    what must agree: numbers, hashes, sessions, deletions, branches, seals, indexes
    Command line

Output: JSON lines, one for each record, ordered as "steno cat" orders them. --golden prints the lines that
format/golden/README.md describes, in the order of the trail. --verify prints one object: `whole`, `problems` and
`notes` (each with `class`, `stream`, `segment`, `offset`, `what`; FORMAT.md lists the classes), and counts.

Exit code: 0: whole; 1: damaged; 3: something cannot be read, because a key is missing or it is of a later version.
"""

import argparse
import hashlib
import ipaddress
import json
import os
import re
import struct
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import Any, Dict, Iterable, Iterator, List, NamedTuple, Optional, Set, Tuple

import lz4.block
import xxhash

FOLDER = os.path.dirname(os.path.abspath(__file__))


# ---- Numbers: what records.def lists ---------------------------------------------------------------------------------


class Numbers:
    """One list of records.def. KIND.GAP is a number; KIND.name_of(9) is its name, KIND.meaning[9] its meaning."""

    def __init__(self, prefix: str, entries: List[Tuple[int, str, str, str]]):
        self.prefix = prefix
        self.name = {number: name for number, _, name, _ in entries}
        self.meaning = {number: meaning for number, _, _, meaning in entries}
        self.number = {symbol: number for number, symbol, _, _ in entries}

    def __getattr__(self, symbol: str) -> int:
        try:
            return self.number[symbol]
        except KeyError:
            raise AttributeError(symbol) from None

    def name_of(self, number: int) -> str:
        return self.name.get(number) or '%s_%d' % (self.prefix, number)

    def names_of_bits(self, mask: int, without: int = 0) -> List[str]:
        """The names of the set bits of a mask, from the lowest."""
        return [self.name_of(bit) for bit in range(mask.bit_length()) if mask & ~without & 1 << bit]


def read_definitions(path: str) -> Dict[str, Numbers]:
    entry = re.compile(r'^STENO_(\w+)\((\d+), (\w+), "([^"]*)", "(.*)"\)$')
    lists: Dict[str, List[Tuple[int, str, str, str]]] = defaultdict(list)
    with open(path, encoding='utf-8') as file:
        for line in file:
            match = entry.match(line)
            if match:
                which, number, symbol, name, meaning = match.groups()
                lists[which].append((int(number), symbol, name, meaning))
    prefixes = {'RELTYPE': 'type'}
    return {which: Numbers(prefixes.get(which, which.lower()), entries) for which, entries in lists.items()}


DEFINITIONS = read_definitions(os.path.join(FOLDER, '..', 'records.def'))
KIND = DEFINITIONS['KIND']
FIELD = DEFINITIONS['FIELD']
OUTCOME = DEFINITIONS['OUTCOME']
EVENT = DEFINITIONS['EVENT']
CLASS = DEFINITIONS['CLASS']
FACT = DEFINITIONS['SESSION_KEY']
ACCESS = DEFINITIONS['ACCESS']
AUDITED = DEFINITIONS['AUDITED']
ACTION = DEFINITIONS['ACTION']
LIST = DEFINITIONS['LIST']
TERMS = DEFINITIONS['TERMS']
RELTYPE = DEFINITIONS['RELTYPE']
REPR = DEFINITIONS['REPR']
CODEC = DEFINITIONS['CODEC']


# ---- Bytes -----------------------------------------------------------------------------------------------------------

U64 = (1 << 64) - 1


class Malformed(Exception):
    """Bytes that do not say what FORMAT.md asks for."""


class TooShort(Malformed):
    """A file that ends within its segment header."""


class Unreadable(Exception):
    """Bytes that may be right, but that this program cannot read: a key is missing, or they are of a later version."""


def signed(number: int) -> int:
    """64 bits as a signed number."""
    number &= U64
    return number - (1 << 64) if number >> 63 else number


class Bytes:
    """A cursor over bytes. Whatever it returns exists: it raises Malformed at the end."""

    def __init__(self, data: bytes, position: int = 0, end: Optional[int] = None):
        self.data, self.position, self.end = data, position, len(data) if end is None else end

    def left(self) -> int:
        return self.end - self.position

    def take(self, count: int) -> bytes:
        if count > self.left():
            raise Malformed('%d bytes are needed, %d are left' % (count, self.left()))
        self.position += count
        return self.data[self.position - count:self.position]

    def rest(self) -> bytes:
        return self.take(self.left())

    def byte(self) -> int:
        return self.take(1)[0]

    def varint(self) -> int:
        """An unsigned LEB128 number of at most 10 bytes and 64 bits; it may be longer than necessary."""
        number = 0
        for shift in range(0, 70, 7):
            byte = self.byte()
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                if number > U64:
                    raise Malformed('a number has more than 64 bits')
                return number
        raise Malformed('a number has more than 10 bytes')

    def zigzag(self) -> int:
        number = self.varint()
        return -(number + 1 >> 1) if number & 1 else number >> 1

    def string(self) -> bytes:
        return self.take(self.varint())


def varint(number: int) -> bytes:
    """A number as the shortest varint."""
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


# ---- Headers ---------------------------------------------------------------------------------------------------------


class SegmentHeader(NamedTuple):
    magic: bytes
    version: int
    length: int
    flags: int
    system_identifier: int
    stream: int
    server_version: int
    number: int
    created: int
    first_block: int
    first_record: int
    chain: bytes
    before_first_time: int  # of the segment before: see check_times
    before_last_end: int
    last_start: int  # a hint: the segment with the last start of the server
    checksum: int


class BlockHeader(NamedTuple):
    magic: bytes
    length: int
    codec: int
    flags: int
    stored_length: int
    payload_length: int
    records: int
    reserved: int
    number: int
    first_record: int
    first_time: int
    first_end: int
    last_end: int
    payload_checksum: int
    chain: bytes
    checksum: int


SEGMENT_FORM = struct.Struct('<8sHHIQIIQqQQ32sqqQQ')
BLOCK_FORM = struct.Struct('<4sHBBIIIIQQqqqQ32sQ')
SEGMENT_MAGIC, BLOCK_MAGIC = b'STENOSEG', b'SBLK'
SEGMENT_LENGTHS = {0: 128, 1: 208}  # by the flag for encryption
MAX_PAYLOAD = 16 << 20
ENCRYPTED = 1


def checksum(data: bytes) -> int:
    return xxhash.xxh64_intdigest(data, seed=0)


def parse_segment_header(data: bytes) -> SegmentHeader:
    """The header at the beginning of a segment's file."""
    if len(data) < SEGMENT_FORM.size:
        raise Malformed('shorter than a segment header')
    header = SegmentHeader(*SEGMENT_FORM.unpack_from(data))
    if header.magic != SEGMENT_MAGIC:
        raise Malformed('not a segment')
    if header.checksum != checksum(data[:120]):
        raise Malformed('wrong checksum of the segment header')
    if header.version != 1:
        raise Unreadable('format version %d' % header.version)
    if header.flags & ~ENCRYPTED:
        raise Unreadable('unknown flags %#x of the segment' % header.flags)
    if header.length != SEGMENT_LENGTHS[header.flags]:
        raise Malformed('a segment header of %d bytes' % header.length)
    if header.flags & ENCRYPTED:
        if len(data) < 208:
            raise TooShort('shorter than its header')
        if struct.unpack_from('<Q', data, 200)[0] != checksum(data[:200]):
            raise Malformed('wrong checksum of the key part')
    return header


def parse_block_header(data: bytes, offset: int) -> Optional[BlockHeader]:
    """The intact block header at an offset, if there is one."""
    if len(data) - offset < BLOCK_FORM.size or data[offset:offset + 4] != BLOCK_MAGIC:
        return None
    header = BlockHeader(*BLOCK_FORM.unpack_from(data, offset))
    if header.length != BLOCK_FORM.size or header.checksum != checksum(data[offset:offset + 104]):
        return None
    most = header.payload_length + header.payload_length // 128 + 1024
    if header.payload_length > MAX_PAYLOAD or header.stored_length > most:
        return None
    return header


# ---- Scanning: the blocks of a segment, and what is torn or damaged --------------------------------------------------


@dataclass
class Problem:
    """Something that is not as FORMAT.md asks for."""
    kind: str  # one of FORMAT.md's classes
    stream: int
    segment: int
    offset: int
    what: str
    session: str = ''
    first: int = 0  # records of the session
    last: int = 0

    def shown(self) -> Dict[str, Any]:
        shown = {'class': self.kind, 'stream': self.stream, 'segment': self.segment, 'offset': self.offset}
        if self.session:
            shown.update({'session': self.session, 'first': self.first, 'last': self.last})
        return {**shown, 'what': self.what}


@dataclass
class Block:
    """A block, whose header is intact; its payload may be damaged."""
    segment: 'Segment'
    offset: int
    header: BlockHeader
    stored: bytes
    head: bytes  # bytes 0-71 of the header, which the chain hash covers
    after_damage: bool  # what is before it in the segment is not known
    whole: bool = True  # its payload has the right checksum
    torn: bool = False
    content: Optional['Content'] = None

    @property
    def number(self) -> int:
        return self.header.number


@dataclass
class Gap:
    """Bytes of a segment in which no block begins."""
    offset: int
    torn: bool
    what: str


@dataclass
class Segment:
    """A file of a stream, as its name says, with what was found in it."""
    stream: int
    number: int
    path: str
    header: Optional[SegmentHeader] = None
    key_part: bytes = b''
    head: bytes = b''  # the whole segment header
    blocks: List[Block] = field(default_factory=list)
    gaps: List[Gap] = field(default_factory=list)
    ends_unknown: bool = False  # something that is no block is behind the last one

    def intact_blocks(self) -> Iterator[Block]:
        return (block for block in self.blocks if block.whole)


def zeros(data: bytes) -> bool:
    return not data.strip(b'\0')


MIN_ZEROS, SECTOR = 16, 512


def has_hole(data: bytes, start: int, end: int, zeros_after: int) -> bool:
    """Whether bytes of a file end with 16 zeros, or all of them in a sector are zeros, at least 16."""
    if end - start >= MIN_ZEROS and zeros(data[end - MIN_ZEROS:end]):
        return True
    for sector in range(start // SECTOR * SECTOR, end, SECTOR):
        first, last = max(start, sector), min(end, sector + SECTOR)
        count = last - first + (zeros_after if last == end else 0)
        if count >= MIN_ZEROS and zeros(data[first:last]):
            return True
    return False


class Scanner:
    """Finds the blocks of one segment's file."""

    def __init__(self, segment: Segment, data: bytes, following: Optional[bytes], last: bool):
        self.segment, self.data, self.last = segment, data, last
        self.following = following  # what the next segment's file contains, if there is one

    def scan(self) -> None:
        """Fill in the segment's header, blocks and gaps; raises Unreadable."""
        offset, number, after_damage = self.scan_header()
        while offset is not None and offset < len(self.data):
            header = parse_block_header(self.data, offset)
            if header is not None and self.end_of(offset, header) <= len(self.data):
                self.add_block(offset, header, after_damage)
                end = self.end_of(offset, header)
                offset = self.next_of_block(self.segment.blocks[-1], number)
                after_damage, number = offset < end, header.number
            elif header is None and self.last and zeros(self.data[offset:]):
                break  # preallocated space
            else:
                offset, number = self.scan_gap(offset, header, number), header.number if header else number
                after_damage = True
        last = self.segment.blocks[-1] if self.segment.blocks else None
        if last is not None and not last.whole and self.last and not self.segment.ends_unknown:
            start, end = last.offset + BLOCK_FORM.size, self.end_of(last.offset, last.header)
            after = self.data[end:end + MIN_ZEROS]
            last.torn = has_hole(self.data, start, end, MIN_ZEROS if after == bytes(MIN_ZEROS) else 0)

    def scan_header(self) -> Tuple[Optional[int], int, bool]:
        """Returns where the blocks begin, if there are any, the number before, and whether the header is damaged."""
        data = self.data
        begins = data[:8] == SEGMENT_MAGIC[:len(data)]
        if len(data) < SEGMENT_FORM.size and begins or zeros(data):
            self.add_gap(0, True, 'an unfinished segment header')
            return None, 0, True
        try:
            self.segment.header = header = parse_segment_header(data)
        except TooShort as error:
            self.add_gap(0, True, str(error))
            return None, 0, True
        except Malformed as error:
            self.add_gap(0, False, str(error))
            self.segment.head, self.segment.key_part = data[:208], data[128:208]  # if it is encrypted: see data_key
            return (self.search(0, 0, False) if len(data) >= SEGMENT_FORM.size else None), 0, True
        self.segment.head = data[:header.length]
        self.segment.key_part = data[128:header.length]
        return header.length, 0, False

    def add_gap(self, offset: int, torn: bool, what: str) -> None:
        self.segment.gaps.append(Gap(offset, torn and self.last, what))

    def add_block(self, offset: int, header: BlockHeader, after_damage: bool) -> None:
        stored = self.data[offset + BLOCK_FORM.size:self.end_of(offset, header)]
        self.segment.blocks.append(Block(self.segment, offset, header, stored, self.data[offset:offset + 72],
                                         after_damage, header.payload_checksum == checksum(stored)))

    def next_of_block(self, block: Block, number: int) -> int:
        """Where what is behind a block begins: inside it, if bytes are missing from it."""
        end = self.end_of(block.offset, block.header)
        if block.whole or self.is_followed(block, end):
            return end
        inside = self.behind(block.offset, number)
        return end if inside is None else min(inside, end)

    def is_followed(self, block: Block, end: int) -> bool:
        """Whether the block that must follow a block begins at its end."""
        if end < len(self.data):
            return self.is_block(end, block.number + 1)
        try:
            return self.following is not None and parse_segment_header(self.following).first_block == block.number + 1
        except (Malformed, Unreadable):
            return False

    def scan_gap(self, offset: int, header: Optional[BlockHeader], number: int) -> Optional[int]:
        """Report bytes that are no block, and return where reading continues, if it does."""
        found = self.behind(offset, number)
        torn = found is None and (header is not None or self.torn_at(offset))
        self.add_gap(offset, torn, 'an unfinished block' if torn else 'no intact block')
        self.segment.ends_unknown = found is None
        return found

    def torn_at(self, offset: int) -> bool:
        """Whether bytes that are no block header, and behind which no block is, are an unfinished write."""
        end = offset + BLOCK_FORM.size
        return len(self.data) < end or has_hole(self.data, offset, end, 0) or zeros(self.data[-MIN_ZEROS:])

    # searching

    @staticmethod
    def end_of(offset: int, header: BlockHeader) -> int:
        return offset + BLOCK_FORM.size + header.stored_length

    def is_block(self, offset: int, number: int) -> bool:
        """Whether the intact header of the block with a number is at an offset."""
        header = parse_block_header(self.data, offset)
        return header is not None and header.number == number

    def ends_at(self, offset: int) -> bool:
        """Whether nothing is at an offset or behind it, but zeros."""
        return zeros(self.data[offset:])

    def behind(self, offset: int, number: int) -> Optional[int]:
        """Where the next block begins after something that is no intact block; number is that of the one before it."""
        data, header = self.data, parse_block_header(self.data, offset)
        if data[offset:offset + 4] != BLOCK_MAGIC or len(data) - offset < BLOCK_FORM.size:
            return self.search(offset + 1, number, False)
        end = offset + BLOCK_FORM.size + struct.unpack_from('<I', data, offset + 8)[0]
        if header is not None:
            if self.is_block(end, header.number + 1):
                return end
            found = self.search(offset + 1, header.number, self.ends_at(end))
            return None if found is None and end >= len(data) else end if found is None else min(found, end)
        following = parse_block_header(data, end)
        if following is not None and (following.number == number + 2 if number else True):
            return end
        return self.search(offset + 1, number, end == len(data))

    def search(self, begin: int, number: int, unfinished: bool) -> Optional[int]:
        """The first offset from one on at which a block begins that can follow the one with a number.

        Bytes that look like a header may be part of a text. unfinished: what is searched may be an unfinished block.
        """
        offset = self.data.find(BLOCK_MAGIC, begin)
        while offset >= 0:
            header = parse_block_header(self.data, offset)
            if header is not None and self.end_of(offset, header) <= len(self.data):
                if self.accepts(offset, header, offset - begin + 1, number, unfinished):
                    return offset
            offset = self.data.find(BLOCK_MAGIC, offset + 1)
        return None

    def accepts(self, offset: int, header: BlockHeader, skipped: int, number: int, unfinished: bool) -> bool:
        end = self.end_of(offset, header)
        whole = header.payload_checksum == checksum(self.data[offset + BLOCK_FORM.size:end])
        follows = number == 0 or 0 <= header.number - number - 1 <= skipped // BLOCK_FORM.size
        if follows and not unfinished:
            return end == len(self.data) or parse_block_header(self.data, end) is not None or whole
        return whole and (self.is_block(end, header.number + 1) or self.ends_at(end))


@dataclass
class Trail:
    """All segments of a trail, and what is wrong with it."""
    path: str
    streams: Dict[int, List[Segment]] = field(default_factory=dict)
    problems: List[Problem] = field(default_factory=list)
    notes: List[Problem] = field(default_factory=list)
    unreadable: List[Problem] = field(default_factory=list)

    def segments(self) -> Iterator[Segment]:
        for _, segments in sorted(self.streams.items()):
            yield from segments

    def blocks(self) -> Iterator[Block]:
        for segment in self.segments():
            yield from segment.intact_blocks()

    def records(self) -> Iterator['Record']:
        for block in self.blocks():
            if block.content is not None:
                yield from block.content.records

    def report(self, kind: str, segment: Segment, offset: int, what: str) -> None:
        self.problems.append(Problem(kind, segment.stream, segment.number, offset, what))

    def report_block(self, kind: str, block: Block, what: str) -> None:
        self.report(kind, block.segment, block.offset, what)

    def report_session(self, kind: str, record: 'Record', first: int, last: int, what: str) -> None:
        """Report something about records of a session, first to last; record is where it shows."""
        block, name = record.block, session_name(record.session)
        self.problems.append(Problem(kind, block.segment.stream, block.segment.number, block.offset, what,
                                     name, first, last))

    def note(self, kind: str, segment: Segment, offset: int, what: str) -> None:
        self.notes.append(Problem(kind, segment.stream, segment.number, offset, what))

    def cannot_read(self, segment: Segment, offset: int, what: str) -> None:
        self.unreadable.append(Problem('unreadable', segment.stream, segment.number, offset, what))


def scan_segment(trail: Trail, scanner: Scanner) -> None:
    """Find the blocks of a segment, and report what is torn or damaged in it."""
    segment = scanner.segment
    try:
        scanner.scan()
    except Unreadable as error:
        trail.cannot_read(segment, 0, str(error))
    for gap in segment.gaps:
        (trail.note if gap.torn else trail.report)('torn' if gap.torn else 'damaged', segment, gap.offset, gap.what)
    for block in segment.blocks:
        if block.torn:
            trail.note('torn', segment, block.offset, 'a part of the payload was not written')
        elif not block.whole:
            trail.report('damaged', segment, block.offset, 'wrong checksum of the payload')


def scan_trail(path: str) -> Trail:
    """Read all files of a trail, and find their blocks."""
    trail = Trail(path)
    for folder in os.listdir(path):
        if not re.fullmatch(r'0|[1-9][0-9]*', folder) or not os.path.isdir(os.path.join(path, folder)):
            continue
        names = [name for name in os.listdir(os.path.join(path, folder)) if re.fullmatch(r'[0-9]{10}\.steno', name)]
        if names:
            trail.streams[int(folder)] = [Segment(int(folder), int(name[:10]), os.path.join(path, folder, name))
                                          for name in sorted(names)]
    for segments in trail.streams.values():
        files = []
        for segment in segments:
            with open(segment.path, 'rb') as file:
                files.append(file.read())
        for index, segment in enumerate(segments):
            following = None
            if index + 1 < len(segments) and segments[index + 1].number == segment.number + 1:
                following = files[index + 1]
            scan_segment(trail, Scanner(segment, files[index], following, index + 1 == len(segments)))
    return trail


# ---- Payloads: decryption, decompression -----------------------------------------------------------------------------


def header_near(trail: Trail, segment: Segment) -> Optional[SegmentHeader]:
    """The header of a segment; if it is damaged, that of the next one of the stream that is not, or of the last one."""
    if segment.header is not None:
        return segment.header
    intact = [other for other in trail.streams[segment.stream] if other.header is not None]
    behind = [other for other in intact if other.number > segment.number]
    return (behind[0] if behind else intact[-1]).header if intact else None


class Keys:
    """The keys of encrypted trails, and the data keys that they decrypt."""

    def __init__(self, keys: Iterable[bytes]):
        self.by_id = {hashlib.sha256(b'pg_steno key id\0' + key).digest()[:8]: key for key in keys}

    def payload(self, block: Block, stored: bytes, near: Optional[SegmentHeader]) -> bytes:
        """The payload of a block of an encrypted segment, decrypted."""
        data_key = self.data_key(block.segment, near)
        if len(stored) < 28:
            raise Malformed('an encrypted payload of %d bytes' % len(stored))
        return self.open(data_key, stored[:12], stored[12:], block.head[:64])

    def data_key(self, segment: Segment, near: Optional[SegmentHeader]) -> bytes:
        """The data key of a segment."""
        nonce, sealed = segment.key_part[8:20], segment.key_part[20:68]
        if segment.header is not None:
            key = self.by_id.get(segment.key_part[:8])
            if key is None:
                raise Unreadable('the key %s is missing' % segment.key_part[:8].hex())
            return self.open(key, nonce, sealed, segment.head[:40])
        # The header is damaged. The tag tells whether a key, and what the header must have said, are right.
        bounds = [segment.head[:40]]
        if near is not None:
            bounds.append(struct.pack('<8sHHIQIIQ', SEGMENT_MAGIC, 1, 208, ENCRYPTED, near.system_identifier,
                                      segment.stream, near.server_version, segment.number))
        for key in self.by_id.values():
            for bound in bounds:
                try:
                    return self.open(key, nonce, sealed, bound)
                except Malformed:
                    pass
        raise Unreadable('the data key is in the segment header, which is damaged')

    @staticmethod
    def open(key: bytes, nonce: bytes, sealed: bytes, additional: bytes) -> bytes:
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        try:
            return AESGCM(key).decrypt(nonce, sealed, additional)
        except (InvalidTag, ValueError):
            raise Malformed('was not encrypted with this key') from None


def payload_of(block: Block, keys: Keys, near: Optional[SegmentHeader]) -> bytes:
    """The items of a block; near is the header of its segment, or one near it if that is damaged."""
    header, stored = block.header, block.stored
    if header.flags & ~ENCRYPTED:
        raise Unreadable('unknown flags %#x of the block' % header.flags)
    if header.codec not in (CODEC.NONE, CODEC.LZ4):
        raise Unreadable('unknown codec %d' % header.codec)
    if block.segment.header is not None and header.flags != block.segment.header.flags:
        raise Malformed('a block that is encrypted in a segment that is not, or the opposite')
    if header.flags & ENCRYPTED:
        stored = keys.payload(block, stored, near)
    if header.codec == CODEC.LZ4:
        try:
            payload = lz4.block.decompress(stored, uncompressed_size=header.payload_length)
        except lz4.block.LZ4BlockError:
            raise Malformed('cannot be decompressed') from None
    else:
        payload = stored
    if len(payload) != header.payload_length:
        raise Malformed('a payload of %d bytes instead of %d' % (len(payload), header.payload_length))
    return payload


# ---- Decoding: the items of a block ----------------------------------------------------------------------------------


@dataclass
class Session:
    """A session definition; it also has what changes from record to record."""
    last_seq: int
    last_statement: int  # the last finished top-level statement
    start: int
    pid: int
    facts: List[Tuple[int, bytes]]
    last_xid: int = 0

    @property
    def key(self) -> Tuple[int, int]:
        return self.start, self.pid

    def fact(self, key: int) -> bytes:
        found = b''
        for number, value in self.facts:
            if number == key:
                found = value
        return found


class Relation(NamedTuple):
    type: int
    access: int
    name: bytes
    columns: Optional[Tuple[Tuple[int, bytes], ...]]  # access and name; nothing if the shape does not say
    via: int  # index of a relation, plus 1


class Parameter(NamedTuple):
    type: int
    repr: int


class Object(NamedTuple):
    action: int
    type: bytes
    name: bytes
    to: bytes


@dataclass
class Shape:
    cls: int
    query_id: int
    tag: bytes
    relations: List[Relation]
    parameters: List[Parameter]
    objects: List[Object]
    has_columns: bool = False
    prepared: bytes = b''
    query: bytes = b''


@dataclass
class Form:
    """What the records of a run have in common."""
    session: Session
    mask: int
    shape: Optional[Shape]
    text: Optional[bytes]
    rows: Optional[int]
    values_length: int
    own_text: bool
    prefix: int
    suffix: int


@dataclass
class Record:
    """A record, with the fields that it has."""
    block: Block
    number: int
    kind: int
    session: Session
    seq: int = 0
    statement: Optional[int] = None
    time: int = 0
    shape: Optional[Shape] = None
    text: Optional[bytes] = None
    rows: Optional[int] = None
    duration: Optional[int] = None
    nulls: Optional[bytes] = None
    values: Optional[bytes] = None
    depth: Optional[int] = None
    substatement: int = 0
    outcome: Optional[int] = None
    sqlstate: Optional[bytes] = None
    message: bytes = b''
    stored_message: bytes = b''  # without its data parts
    xid: Optional[int] = None
    cut: Optional[Tuple[int, bytes]] = None
    parts: Optional[Tuple[int, int, int]] = None
    extra: Optional[List[Tuple[bytes, bytes]]] = None
    audited: Optional[int] = None
    event: Optional[int] = None
    statements: Optional[int] = None
    commit: Optional[Tuple[int, int, int]] = None  # begin and end in the WAL, timeline
    times: Dict[str, int] = field(default_factory=dict)
    relations: List[Relation] = field(default_factory=list)
    objects: List[Object] = field(default_factory=list)
    goes_on: bool = False  # relations and objects are in its data parts
    rolled_back: bool = False

    def says(self, name: str) -> Optional[bytes]:
        """A value of EXTRA."""
        for key, value in self.extra or ():
            if key == name.encode():
                return value
        return None

    def number_of(self, name: str) -> Optional[int]:
        value = self.says(name)
        return int(value) if value is not None and re.fullmatch(rb'[0-9]{1,20}', value) else None

    @property
    def result(self) -> int:
        return OUTCOME.OK if self.outcome is None else self.outcome

    @property
    def is_statement(self) -> bool:
        return self.kind in (KIND.STATEMENT, KIND.START)

    @property
    def end(self) -> int:
        if self.kind != KIND.STATEMENT:
            return self.time
        return self.time + self.times.get('elapsed_us', self.duration or 0)


class DataPart(NamedTuple):
    block: Block
    record: Tuple[int, int, int]  # start and process ID of its session, and its number
    what: int
    data: bytes


@dataclass
class Content:
    """What is in a block."""
    records: List[Record] = field(default_factory=list)
    entries: List[Any] = field(default_factory=list)  # records and data parts, in their order
    sessions: List[Session] = field(default_factory=list)
    shapes: List[Shape] = field(default_factory=list)
    texts: List[bytes] = field(default_factory=list)
    index: Optional[bytes] = None
    items: int = 0
    complete: bool = False  # all items were understood


TIMES = ('analysis_us', 'plan_us', 'commit_us', 'elapsed_us')  # by the bits of a mask
KNOWN_FIELDS = sum(1 << bit for bit in FIELD.name)
FORM_FIELDS = sum(1 << bit for bit in (FIELD.SHAPE, FIELD.TEXT, FIELD.ROWS, FIELD.TIME, FIELD.DURATION, FIELD.VALUES,
                                       FIELD.XID))
MAX_DERIVED_TEXTS = 4 << 20
MAX_PARAMETERS = 65535
MAX_PARTS = 1 << 30


class Decoder:
    """Decodes the items of one block."""

    def __init__(self, block: Block, content: Content):
        self.block, self.content = block, content
        self.forms: List[Form] = []
        self.time = block.header.first_time  # of the previous record
        self.wal = 0  # end of the last commit
        self.times: Dict[str, int] = {}  # of the next record
        self.derived_texts = 0

    def decode(self, payload: bytes) -> None:
        """Read all items of a payload. What is before a malformed one counts, and nothing behind it."""
        items = Bytes(payload)
        while items.left():
            item = Bytes(items.string())
            self.item(item.byte(), item)
            self.content.items += 1

    def item(self, kind: int, item: Bytes) -> None:
        content = self.content
        if kind == KIND.DEF_SESSION:
            content.sessions.append(self.session(item))
        elif kind == KIND.DEF_SHAPE:
            content.shapes.append(self.shape(item))
        elif kind == KIND.DEF_TEXT:
            content.texts.append(item.rest())
        elif kind == KIND.DEF_VARIANT:
            base = self.of(content.texts, item)
            prefix, suffix = item.varint(), item.varint()
            self.derive_text(base, prefix, suffix, item.rest())
        elif kind == KIND.DEF_FORM:
            self.forms.append(self.form(item))
        elif kind == KIND.DEF_INDEX and not content.items:
            content.index = item.rest()
        elif kind == KIND.DATA:
            self.data_part(item)
        elif kind == KIND.RUN:
            self.run(item)
        elif kind == KIND.TIMES:
            self.read_times(item)
        elif 1 <= kind <= 63:
            self.record(kind, item)

    def of(self, dictionary: List[Any], item: Bytes) -> Any:
        """The definition whose index is the next number of an item."""
        index = item.varint()
        if index >= len(dictionary):
            raise Malformed('definition %d of %d' % (index, len(dictionary)))
        return dictionary[index]

    # definitions

    @staticmethod
    def session(item: Bytes) -> Session:
        last_seq, last_statement = item.varint(), item.varint()
        start, pid = struct.unpack('<qI', item.take(12))
        facts = []
        while item.left():
            key = item.byte()
            facts.append((key, item.string()))
        return Session(last_seq, last_statement, start, pid, facts)

    @staticmethod
    def shape(item: Bytes) -> Shape:
        cls, query_id, tag = item.varint(), item.varint(), item.string()
        relations = []
        for _ in range(Decoder.count(item)):
            relations.append(Relation(item.byte(), item.varint(), item.string(), None, 0))
        parameters = []
        for _ in range(Decoder.count(item)):
            parameters.append(Parameter(item.varint(), item.byte()))
        if len(parameters) > MAX_PARAMETERS:
            raise Malformed('%d parameters' % len(parameters))
        shape = Shape(cls, query_id, tag, relations, parameters, [])
        if item.left():
            shape.objects = [Decoder.object(item) for _ in range(Decoder.count(item))]
        Decoder.lists(item, shape)
        return shape

    @staticmethod
    def count(item: Bytes) -> int:
        """How many entries follow, each of which has a byte or more."""
        count = item.varint()
        if count > item.left():
            raise Malformed('%d entries in %d bytes' % (count, item.left()))
        return count

    @staticmethod
    def object(item: Bytes) -> Object:
        return Object(item.byte(), item.string(), item.string(), item.string())

    @staticmethod
    def lists(item: Bytes, shape: Shape) -> None:
        """The lists after a shape's objects."""
        while item.left():
            try:
                number, data = item.varint(), item.string()
            except Malformed:
                return  # not a list: of a later version
            if number == LIST.COLUMNS:
                columns = Bytes(data)
                shape.relations = [Decoder.with_columns(relation, columns, len(shape.relations))
                                   for relation in shape.relations]
                shape.has_columns = True
            elif number == LIST.PREPARED:
                shape.prepared = data
            elif number == LIST.QUERY:
                shape.query = data

    @staticmethod
    def with_columns(relation: Relation, item: Bytes, relations: int) -> Relation:
        via = item.varint()
        if via > relations:
            raise Malformed('a view that is none of the relations')
        columns = []
        for _ in range(Decoder.count(item)):
            columns.append((item.varint(), item.string()))
        return relation._replace(via=via, columns=tuple(columns))

    def derive_text(self, base: bytes, prefix: int, suffix: int, middle: bytes) -> bytes:
        """A text that begins and ends like another one; it has the next index."""
        if prefix + suffix > len(base):
            raise Malformed('the common parts of two texts overlap')
        self.derived_texts += prefix + suffix + len(middle)
        if self.derived_texts > MAX_DERIVED_TEXTS:
            raise Malformed('the texts of variants and runs are too long')
        text = base[:prefix] + middle + base[len(base) - suffix:]
        self.content.texts.append(text)
        return text

    def form(self, item: Bytes) -> Form:
        session = self.of(self.content.sessions, item)
        mask = item.varint()
        if mask & ~FORM_FIELDS:
            raise Malformed('a form with fields %#x' % mask)
        shape = self.of(self.content.shapes, item) if mask & 1 << FIELD.SHAPE else None
        text = self.of(self.content.texts, item) if mask & 1 << FIELD.TEXT else None
        rows = item.varint() if mask & 1 << FIELD.ROWS else 0
        values_length = item.varint() if mask & 1 << FIELD.VALUES else 0
        own_text = item.left() > 0
        prefix = suffix = 0
        if own_text:
            prefix, suffix = item.varint(), item.varint()
            if text is None or prefix + suffix > len(text):
                raise Malformed('the common parts of a form')
        return Form(session, mask, shape, text, rows - 1 if rows else None, values_length, own_text, prefix, suffix)

    # parts and runs

    def data_part(self, item: Bytes) -> None:
        session = self.of(self.content.sessions, item)
        seq, what = item.varint(), item.byte()
        if what > 2:
            raise Malformed('a data part of %d' % what)
        self.content.entries.append(DataPart(self.block, session.key + (seq,), what, item.rest()))

    def read_times(self, item: Bytes) -> None:
        try:
            mask = item.varint()
            self.times = {name: item.varint() for bit, name in enumerate(TIMES) if mask & 1 << bit}
        except Malformed:
            pass  # it says nothing

    def run(self, item: Bytes) -> None:
        count = self.count(item)
        if not count:
            raise Malformed('a run without records')
        for left in range(count, 0, -1):
            form = self.of(self.forms, item)
            session = form.session
            record = self.new_record(KIND.STATEMENT, session)
            record.shape, record.text, record.rows = form.shape, form.text, form.rows
            if form.own_text:
                record.text = self.derive_text(form.text or b'', form.prefix, form.suffix, item.string())
            if form.mask & 1 << FIELD.ROWS and form.rows is None:
                record.rows = item.varint()
            if form.mask & 1 << FIELD.TIME:
                self.time = signed(self.time + item.zigzag())
            record.time = self.time
            if form.mask & 1 << FIELD.DURATION:
                record.duration = item.varint()
            if form.mask & 1 << FIELD.VALUES:
                record.values = item.take(form.values_length)
            if form.mask & 1 << FIELD.XID:
                record.xid = session.last_xid = session.last_xid + item.zigzag() & U64
            if left == 1 and item.left():
                raise Malformed('%d bytes after the last record of a run' % item.left())
            self.number(record, 0)
            session.last_statement = record.statement = session.last_statement + 1 & U64
            self.add(record)

    # records

    def new_record(self, kind: int, session: Session) -> Record:
        return Record(self.block, self.block.header.first_record + len(self.content.records), kind, session)

    @staticmethod
    def number(record: Record, difference: int) -> None:
        """Give a record its sequence number; 0 means none, and the next record has the number that it would have."""
        record.seq = record.session.last_seq + 1 + difference & U64
        if record.seq:
            record.session.last_seq = record.seq

    def add(self, record: Record) -> None:
        if record.shape is not None:
            record.relations, record.objects = list(record.shape.relations), list(record.shape.objects)
        record.goes_on = record.says('further_bytes') is not None
        self.content.records.append(record)
        self.content.entries.append(record)

    def record(self, kind: int, item: Bytes) -> None:
        session = self.of(self.content.sessions, item)
        record = self.new_record(kind, session)
        mask = item.varint()
        difference = {FIELD.SEQ: 0, FIELD.STATEMENT: 0, FIELD.TIME: 0}
        for bit in sorted(FIELD.name):
            if mask & 1 << bit:
                if bit in difference:
                    difference[bit] = item.zigzag()
                else:
                    self.field(bit, record, item)
        if not mask & ~KNOWN_FIELDS and item.left():
            raise Malformed('%d bytes after the fields of a record' % item.left())
        self.time = record.time = signed(self.time + difference[FIELD.TIME])
        self.number(record, difference[FIELD.SEQ])
        if record.is_statement:
            record.statement = session.last_statement + 1 + difference[FIELD.STATEMENT] & U64
            finished = kind == KIND.STATEMENT and not record.depth
            session.last_statement = record.statement if finished else record.statement - 1 & U64
        record.times, self.times = self.times, {}
        self.add(record)

    def field(self, bit: int, record: Record, item: Bytes) -> None:
        """Read one field, except for the three that are differences."""
        if bit == FIELD.SHAPE:
            record.shape = self.of(self.content.shapes, item)
        elif bit == FIELD.TEXT:
            record.text = self.of(self.content.texts, item)
        elif bit == FIELD.ROWS:
            record.rows = item.varint()
        elif bit == FIELD.DURATION:
            record.duration = item.varint()
        elif bit == FIELD.NULLS:
            if record.shape is None:
                raise Malformed('NULL parameters without a shape')
            record.nulls = item.take((len(record.shape.parameters) + 7) // 8)
        elif bit == FIELD.VALUES:
            record.values = item.string()
        elif bit == FIELD.NESTING:
            record.depth, record.substatement = item.varint(), item.varint()
        elif bit == FIELD.OUTCOME:
            record.outcome = item.byte()
        elif bit == FIELD.ERROR:
            record.sqlstate, record.stored_message = item.take(5), item.string()
            record.message = record.stored_message
        elif bit == FIELD.XID:
            record.xid = record.session.last_xid = item.varint()
        elif bit == FIELD.CUT:
            record.cut = item.varint(), item.take(32)
        elif bit == FIELD.PARTS:
            record.parts = item.varint(), item.varint(), item.varint()
            if max(record.parts) >= MAX_PARTS:
                raise Malformed('data parts of %d bytes' % max(record.parts))
        elif bit == FIELD.EXTRA:
            record.extra = [(item.string(), item.string()) for _ in range(self.count(item))]
        elif bit == FIELD.AUDITED:
            record.audited = item.byte()
        elif bit == FIELD.EVENT:
            record.event = item.byte()
        elif bit == FIELD.STATEMENTS:
            record.statements = item.varint()
        elif bit == FIELD.COMMIT:
            begin = self.wal + item.zigzag() & U64
            self.wal = begin + item.varint() & U64
            record.commit = begin, self.wal, item.varint()


def decode_trail(trail: Trail, keys: Keys) -> None:
    """Decode all blocks."""
    for block in trail.blocks():
        try:
            payload = payload_of(block, keys, header_near(trail, block.segment))
            block.content = Content()
            Decoder(block, block.content).decode(payload)
            block.content.complete = True
        except Malformed as error:  # what was decoded before counts
            trail.report_block('content', block, str(error))
        except Unreadable as error:
            trail.cannot_read(block.segment, block.offset, str(error))


# ---- Joining: data parts; further relations and objects --------------------------------------------------------------


RecordID = Tuple[int, int, int]  # of a session, and the number of the record


def join_parts(trail: Trail) -> None:
    """Put data parts before what they continue. They are before their record, in its stream or in another one."""
    waiting: Dict[int, Dict[RecordID, List[DataPart]]] = defaultdict(lambda: defaultdict(list))  # by stream
    incomplete: List[Tuple[Record, List[DataPart]]] = []
    for block in trail.blocks():
        of_stream = waiting[block.segment.stream]
        for entry in block.content.entries if block.content else ():
            if isinstance(entry, DataPart):
                of_stream[entry.record].append(entry)
            elif entry.parts is not None:
                own = of_stream.pop(record_id(entry), [])
                if length_of(own) == sum(entry.parts):
                    join_record(entry, own)
                else:
                    incomplete.append((entry, own))
    for record, own in incomplete:
        # a restart gave the session's ring to the writer of this stream: what is in another one was written before
        before = [part for of_stream in waiting.values() for part in of_stream.pop(record_id(record), [])]
        if length_of(before + own) != sum(record.parts or ()):
            trail.report_session('parts', record, record.seq, record.seq, 'data parts of %d bytes instead of %d' % (
                length_of(before + own), sum(record.parts or ())))
        join_record(record, before + own)
    for of_stream in waiting.values():
        for parts in of_stream.values():
            trail.note('parts', parts[0].block.segment, parts[0].block.offset, 'data parts without their record')


def record_id(record: Record) -> RecordID:
    return record.session.start, record.session.pid, record.seq


def length_of(parts: List[DataPart]) -> int:
    return sum(len(part.data) for part in parts)


def join_record(record: Record, parts: List[DataPart]) -> None:
    """Complete a record. If there are more bytes than it says, the last ones are its own."""
    joined = [b''.join(part.data for part in parts if part.what == what) for what in range(3)]
    text, values, message = (data[max(0, len(data) - length):] for data, length in zip(joined, record.parts or ()))
    if record.parts and record.parts[0]:
        record.text = text + (record.text or b'')
    record.message = message + record.message
    if record.parts and len(values) == record.parts[1]:
        record.values = values + record.values if record.values is not None else values or None
    else:
        record.values = record.nulls = None  # nobody knows which values these are


FURTHER_RELATION, FURTHER_OBJECT, FURTHER_VIEW = 1, 2, 3


def join_further(trail: Trail) -> None:
    """Add the relations and objects for which a shape had no space."""
    for record in trail.records():
        length, shape, values = record.number_of('further_bytes'), record.shape, record.values
        if not length or shape is None or values is None or length > len(values):
            continue
        if record.parts is None or not record.parts[1]:
            continue
        try:
            read_further(record, Bytes(values[-length:]))
        except Malformed:  # it lacks these, as the name in EXTRA says
            record.relations, record.objects = list(shape.relations), list(shape.objects)
            continue
        record.values = values[:-length] if shape.parameters else None
        record.extra = [pair for pair in record.extra or () if pair[0] != b'further_bytes']


def read_further(record: Record, further: Bytes) -> None:
    while further.left():
        kind, item = further.byte(), Bytes(further.string())
        if kind == FURTHER_RELATION:
            relation = Relation(item.byte(), item.varint(), item.string(), None, 0)
            record.relations.append(Decoder.with_columns(relation, item, 1 << 30))
        elif kind == FURTHER_OBJECT:
            record.objects.append(Decoder.object(item))
        elif kind == FURTHER_VIEW:
            index, via = item.varint(), item.varint()
            if record.shape is None or not 1 <= index <= len(record.shape.relations):
                raise Malformed('relation %d' % index)
            record.relations[index - 1] = record.relations[index - 1]._replace(via=via)
    if any(relation.via > len(record.relations) for relation in record.relations):
        raise Malformed('a view that is none of the relations')


# ---- Transactions: which statements were rolled back -----------------------------------------------------------------


def mark_rolled_back(trail: Trail) -> None:
    """Look up how the transactions of statements that succeeded have ended."""
    ends: Dict[Tuple[Tuple[int, int], int], Record] = {}  # by session and ID
    prepared: Dict[int, List[Record]] = defaultdict(list)  # ends of prepared transactions by ID, of whatever session
    undone: Dict[Tuple[Tuple[int, int], int], List[Record]] = defaultdict(list)
    for record in trail.records():
        if not record.xid or record.kind not in (KIND.TRANSACTION, KIND.SUBTRANSACTION):
            continue
        key = record.session.key, record.xid
        if record.kind == KIND.SUBTRANSACTION:
            undone[key].append(record)
        elif record.event in (EVENT.COMMIT_PREPARED, EVENT.ROLLBACK_PREPARED):
            prepared[record.xid].append(record)
        else:
            ends[key] = record
    for record in trail.records():
        if record.kind == KIND.STATEMENT and record.result == OUTCOME.OK and record.xid and not is_rollback(record):
            key = record.session.key, record.xid
            end = ends.get(key)
            if end is not None and end.event == EVENT.PREPARE and end.result == OUTCOME.OK:
                later = [other for other in prepared[record.xid] if other.time >= record.time]
                end = min(later, key=lambda other: other.time) if later else None
            record.rolled_back = any(takes_back(part, record) for part in undone[key]) or \
                end is not None and (end.event == EVENT.ROLLBACK_PREPARED or end.result == OUTCOME.ERROR)


def is_rollback(record: Record) -> bool:
    return record.shape is not None and record.shape.cls == CLASS.TRANSACTION and record.shape.tag == b'ROLLBACK'


def takes_back(part: Record, record: Record) -> bool:
    """Whether a subtransaction that was rolled back contained a statement of its transaction."""
    names = ('first_seq', 'last_seq', 'after_statement', 'after_substatement')
    first, last, *before = (part.number_of(name) for name in names)
    if first is None or last is None or None in before or part.result != OUTCOME.ERROR:
        return False
    if not first <= record.seq <= last:
        return False
    statement = record.statement or 0
    # a nested statement of an earlier one is the query of a cursor that was read in the subtransaction
    return [statement, record.substatement] > before or statement < before[0] and record.substatement > 0


# ---- Strings, values: how they are shown -----------------------------------------------------------------------------

# PostgreSQL's names of encodings, as Python names them; of others, only ASCII is converted.
ENCODINGS = {b'UTF8': 'utf-8', b'EUC_JP': 'euc_jp', b'EUC_CN': 'gb2312', b'EUC_KR': 'euc_kr',
             b'KOI8R': 'koi8_r', b'KOI8U': 'koi8_u', b'WIN866': 'cp866', b'WIN874': 'cp874'}
ENCODINGS.update({b'LATIN%d' % number: 'iso8859_%d' % part for number, part in
                  [(1, 1), (2, 2), (3, 3), (4, 4), (5, 9), (6, 10), (7, 13), (8, 14), (9, 15), (10, 16)]})
ENCODINGS.update({b'ISO_8859_%d' % part: 'iso8859_%d' % part for part in (5, 6, 7, 8)})
ENCODINGS.update({b'WIN%d' % page: 'cp%d' % page for page in range(1250, 1259)})


def convert(data: bytes, encoding: bytes) -> str:
    """A string in the encoding of a database; bytes that cannot be converted are shown as U+FFFD and hexadecimal."""
    codec = ENCODINGS.get(encoding or b'UTF8', 'ascii')
    out, position = [], 0
    while position < len(data):
        try:
            out.append(data[position:].decode(codec).replace('\ufffd', '\ufffd\ufffd'))
            break
        except UnicodeDecodeError as error:
            out.append(data[position:position + error.start].decode(codec).replace('\ufffd', '\ufffd\ufffd'))
            position += error.start
            out.append('\ufffd%02x' % data[position])
            position += 1
    return ''.join(out)


def convert_name(data: bytes, encoding: bytes) -> str:
    """The name of a role, database, tablespace or subscription: UTF-8, or else in the encoding of the database."""
    try:
        data.decode('utf-8')
        return convert(data, b'')
    except UnicodeDecodeError:
        return convert(data, encoding)


SHARED_TYPES = (b'role', b'database', b'tablespace', b'subscription')


def civil(days: int) -> Tuple[int, int, int]:
    """Year, month and day of a number of days since 2000-01-01, in the Gregorian calendar; year 0 is 1 BC."""
    days += 730425  # since 0000-03-01
    era, day = divmod(days, 146097)
    year = (day - day // 1460 + day // 36524 - day // 146096) // 365
    day -= 365 * year + year // 4 - year // 100
    month = (5 * day + 2) // 153
    day -= (153 * month + 2) // 5
    return year + era * 400 + (month > 9), month + 3 if month < 10 else month - 9, day + 1


DAY = 86400 * 1000000


def clock(microseconds: int) -> str:
    seconds, fraction = divmod(microseconds, 1000000)
    shown = '%02d:%02d:%02d' % (seconds // 3600, seconds // 60 % 60, seconds % 60)
    return shown + ('.%06d' % fraction).rstrip('0') if fraction else shown


def shown_date(days: int) -> str:
    if days in (-1 << 31, (1 << 31) - 1):
        return '-infinity' if days < 0 else 'infinity'
    year, month, day = civil(days)
    return '%04d-%02d-%02d%s' % (year if year > 0 else 1 - year, month, day, '' if year > 0 else ' BC')


def shown_timestamp(time: int, zone: str) -> str:
    if time in (-1 << 63, (1 << 63) - 1):
        return '-infinity' if time < 0 else 'infinity'
    days, rest = divmod(time, DAY)
    date, era = shown_date(days), ''
    if date.endswith(' BC'):
        date, era = date[:-3], ' BC'
    return '%s %s%s%s' % (date, clock(rest), zone, era)


def shown_time_of_day(microseconds: int) -> str:
    if not 0 <= microseconds <= DAY:
        raise Malformed('a time of day of %d' % microseconds)
    return clock(microseconds)


def shown_zone(west: int) -> str:
    seconds = abs(west)
    if seconds >= 16 * 3600:
        raise Malformed('a zone of %d seconds' % west)
    shown = '%s%02d' % ('-' if west > 0 else '+', seconds // 3600)
    if seconds % 3600:
        shown += ':%02d' % (seconds // 60 % 60)
    return shown + ':%02d' % (seconds % 60) if seconds % 60 else shown


def shown_interval(microseconds: int, days: int, months: int) -> str:
    if (microseconds, days, months) == ((1 << 63) - 1, (1 << 31) - 1, (1 << 31) - 1):
        return 'infinity'
    if (microseconds, days, months) == (-1 << 63, -1 << 31, -1 << 31):
        return '-infinity'
    years = abs(months) // 12 * (1 if months >= 0 else -1)
    shown, negative = [], False
    for count, unit in ((years, 'year'), (months - 12 * years, 'mon'), (days, 'day')):
        if count:
            plus = '+' if negative and count > 0 else ''
            shown.append('%s%d %s%s' % (plus, count, unit, '' if count == 1 else 's'))
            negative = count < 0
    if microseconds or not shown:
        sign = '-' if microseconds < 0 else '+' if negative else ''
        shown.append(sign + clock(abs(microseconds)))
    return ' '.join(shown)


def shortest_float(number: float, form: str) -> Decimal:
    """The fewest digits that are nearer to a number than to any other one, and not exactly between two."""
    packed = struct.pack(form, number)
    bits = int.from_bytes(packed, 'little')
    exact, reach = Fraction(number), []
    for step in (1, -1) if number else ():
        other = struct.unpack(form, (bits + step).to_bytes(len(packed), 'little'))[0]
        if abs(other) != float('inf'):
            reach.append((exact + Fraction(other)) / 2)
    if len(reach) == 1:  # the highest number: the next one would be as far away as the one below
        reach.append(2 * exact - reach[0])
    low, high = sorted(reach) if reach else (exact, exact)
    for digits in range(1, 18):
        rounded = [Context(prec=digits, rounding=mode).create_decimal(number) for mode in (ROUND_FLOOR, ROUND_CEILING)]
        for candidate in sorted(rounded, key=lambda decimal: abs(Fraction(decimal) - exact)):
            if Fraction(candidate) == exact or low < Fraction(candidate) < high:
                return candidate
    raise AssertionError('17 digits suffice for any number')


def shown_float(number: float, single: bool) -> str:
    """The fewest digits that give the same number, as PostgreSQL prints them."""
    if number != number:
        return 'NaN'
    if number in (float('inf'), float('-inf')):
        return 'Infinity' if number > 0 else '-Infinity'
    negative, digit_list, exponent = shortest_float(number, '<f' if single else '<d').as_tuple()
    digits = ''.join(map(str, digit_list))
    digits, exponent = digits.rstrip('0') or '0', int(exponent) + len(digits) - 1
    if digits == '0':
        shown = '0'
    elif not -4 <= exponent < (6 if single else 15):
        shown = digits[0] + ('.' + digits[1:] if digits[1:] else '') + 'e%+03d' % exponent
    elif exponent < 0:
        shown = '0.' + '0' * (-exponent - 1) + digits
    else:
        digits = digits.ljust(exponent + 1, '0')
        shown = digits[:exponent + 1] + ('.' + digits[exponent + 1:] if digits[exponent + 1:] else '')
    return '-' + shown if negative else shown


MAX_ZEROS = 400  # that are not stored, and shown


def shown_numeric(data: bytes) -> str:
    """A packed numeric: a word with sign, scale and perhaps weight, and digits to the base of 10000."""
    value = Bytes(data)
    word, = struct.unpack('<H', value.take(2))
    if word >> 14 == 3:
        names = {0xC000: 'NaN', 0xD000: 'Infinity', 0xF000: '-Infinity'}
        return names.get(word & 0xF000, 'NaN')
    if word >> 14 == 2:
        negative, scale, weight = bool(word & 0x2000), word >> 7 & 0x3F, (word & 0x3F) - (word & 0x40)
    else:
        negative, scale, weight = bool(word & 0x4000), word & 0x3FFF, struct.unpack('<h', value.take(2))[0]
    if value.left() % 2:
        raise Malformed('half a digit of a numeric')
    digits = struct.unpack('<%dH' % (value.left() // 2), value.rest())
    if any(digit > 9999 for digit in digits):
        raise Malformed('a digit of a numeric')
    text = ''.join('%04d' % digit for digit in digits)
    point = 4 * (weight + 1)  # where the decimal point is in the text
    absent = max(0, point - len(text)) + max(0, -point) + max(0, scale - max(0, len(text) - point))
    if absent > MAX_ZEROS:
        integer = text.lstrip('0')
        if not integer:
            return '-0' if negative else '0'
        exponent = point - len(text) + len(integer) - len(integer.rstrip('0'))
        return ('-' if negative else '') + integer.rstrip('0') + ('e%d' % exponent if exponent else '')
    whole = text.ljust(max(0, point), '0')[:max(0, point)]
    whole = str(int(whole[:4] or '0')) + whole[4:]
    fraction = ('0' * -point + text[max(0, point):])[:scale].ljust(scale, '0')
    return ('-' if negative else '') + whole + ('.' + fraction if scale else '')


def shown_address(data: bytes, network: bool) -> str:
    value = Bytes(data)
    family, bits = value.byte(), value.byte()
    if family == 2 and value.left() == 4:
        shown, full = str(ipaddress.IPv4Address(value.rest())), 32
    elif family == 3 and value.left() == 16:
        address = value.rest()
        shown, full = str(ipaddress.IPv6Address(address)), 128
        if address[:12] == bytes(10) + b'\xff\xff':
            shown = '::ffff:%s' % ipaddress.IPv4Address(address[12:])
        elif address[:12] == bytes(12) and address[12:14] != bytes(2):
            shown = '::%s' % ipaddress.IPv4Address(address[12:])
    else:
        raise Malformed('an address of family %d' % family)
    return shown if bits == full and not network else '%s/%d' % (shown, bits)


def width_of(meaning: str) -> Optional[int]:
    """How many bytes a representation has, by its meaning in records.def; nothing: a string."""
    if meaning.startswith('string'):
        return None
    return sum(int(count) for count in re.findall(r'(\d+) bytes?\b', meaning))


WIDTHS = {number: width_of(meaning) for number, meaning in REPR.meaning.items()}
UNKNOWN_REPRESENTATION = '<unknown representation>'


def shown_value(representation: int, data: bytes, encoding: bytes) -> str:
    """A value as PostgreSQL prints it with default settings, in UTC."""
    try:
        return value_text(representation, data, encoding)
    except Malformed:
        return '<damaged value>'


def value_text(representation: int, data: bytes, encoding: bytes) -> str:
    if representation == REPR.NONE:
        return '<not recorded>'
    if representation == REPR.BOOL:
        return 't' if data[0] else 'f'
    if representation in (REPR.INT2, REPR.INT4, REPR.INT8):
        return str(int.from_bytes(data, 'little', signed=True))
    if representation == REPR.OID:
        return str(int.from_bytes(data, 'little'))
    if representation == REPR.FLOAT4:
        return shown_float(struct.unpack('<f', data)[0], True)
    if representation == REPR.FLOAT8:
        return shown_float(struct.unpack('<d', data)[0], False)
    if representation == REPR.TEXT:
        return convert(data, encoding)
    if representation == REPR.BYTEA:
        return '\\x' + data.hex()
    if representation == REPR.NUMERIC:
        return shown_numeric(data)
    if representation == REPR.UUID:
        return re.sub('(.{8})(.{4})(.{4})(.{4})(.{12})', r'\1-\2-\3-\4-\5', data.hex())
    if representation == REPR.DATE:
        return shown_date(struct.unpack('<i', data)[0])
    if representation == REPR.TIME:
        return shown_time_of_day(struct.unpack('<q', data)[0])
    if representation == REPR.TIMETZ:
        time, west = struct.unpack('<qi', data)
        return shown_time_of_day(time) + shown_zone(west)
    if representation == REPR.TIMESTAMP:
        return shown_timestamp(struct.unpack('<q', data)[0], '')
    if representation == REPR.TIMESTAMPTZ:
        return shown_timestamp(struct.unpack('<q', data)[0], '+00')
    if representation == REPR.INTERVAL:
        return shown_interval(*struct.unpack('<qii', data))
    if representation in (REPR.INET, REPR.CIDR):
        return shown_address(data, representation == REPR.CIDR)
    if representation == REPR.CHAR:
        return '' if not data[0] else chr(data[0]) if data[0] < 128 else '\\%03o' % data[0]
    raise Malformed('a value of representation %d' % representation)


UNUSED = Parameter(0, REPR.NONE)  # of a NULL: a variable of a function that the statement does not use


class Value(NamedTuple):
    parameter: Parameter
    data: Optional[bytes]  # nothing: NULL
    known: bool = True


def values_of(record: Record) -> 'Values':
    """The values of a record's parameters, as far as they are as their types say."""
    shape = record.shape
    if shape is None or not shape.parameters or record.values is None and record.nulls is None:
        return Values()
    values, found = Bytes(record.values or b''), Values()
    if len(shape.parameters) == 1 and shape.parameters[0].repr == REPR.LIST:
        found.take_list(values)
    else:
        found.take_all(values, shape.parameters, record.nulls or b'')
    return found


class Values(List[Value]):
    """Values of parameters; fits says whether the bytes were as the types say."""

    fits = True

    def take(self, values: Bytes, parameter: Parameter) -> None:
        width = WIDTHS[parameter.repr]
        self.append(Value(parameter, values.string() if width is None else values.take(width)))

    def take_all(self, values: Bytes, parameters: List[Parameter], nulls: bytes) -> None:
        lost = False  # nobody knows where a value of an unknown representation ends, nor those after it
        try:
            for index, parameter in enumerate(parameters):
                if nulls and nulls[index // 8] >> index % 8 & 1:
                    self.append(Value(parameter, None))
                elif lost or parameter.repr not in WIDTHS or parameter.repr == REPR.LIST:
                    lost = True
                    self.append(Value(parameter, None, False))
                else:
                    self.take(values, parameter)
            self.fits = lost or not values.left()
        except Malformed:
            self.fits = False

    def take_list(self, outer: Bytes) -> None:
        """A list of very many parameters, each with its type."""
        try:
            values = Bytes(outer.string())
            count = Decoder.count(values)
            if count > MAX_PARAMETERS or outer.left():
                raise Malformed('a list of %d parameters' % count)
            while len(self) < count:
                number, representation = values.varint(), values.byte()
                parameter = Parameter(number, representation & ~LISTED_NULL)
                if parameter.repr == REPR.LIST:
                    raise Malformed('a list in a list')
                if representation & LISTED_NULL:
                    self.append(Value(parameter, None))
                elif parameter.repr not in WIDTHS:
                    self.extend([Value(parameter, None, False)] * (count - len(self)))
                    return
                else:
                    self.take(values, parameter)
            self.fits = not values.left()
        except Malformed:
            self.fits = False


LISTED_NULL = 128


def shown_values(record: Record) -> List[Optional[str]]:
    """The values up to the last one that the statement uses."""
    encoding = record.session.fact(FACT.ENCODING)
    values = values_of(record)
    while values and values[-1].data is None and values[-1].known and values[-1].parameter == UNUSED:
        values.pop()
    return [UNKNOWN_REPRESENTATION if not value.known else None if value.data is None
            else shown_value(value.parameter.repr, value.data, encoding) for value in values]


# ---- Shown form: JSON as "steno cat" prints it -----------------------------------------------------------------------

EPOCH = 946684800  # 2000-01-01 in seconds since 1970


def session_name(session: Session) -> str:
    """The session as %c of log_line_prefix shows it."""
    return '%x.%x' % (session.start // 1000000 + EPOCH & U64, session.pid)


def shown_time(time: int) -> str:
    days, rest = divmod(time, DAY)
    year, month, day = civil(days)
    date = '%s%04d-%02d-%02d' % ('-' if year < 0 else '', abs(year), month, day)
    return '%sT%s.%06dZ' % (date, clock(rest)[:8], rest % 1000000)


def shown_position(position: int) -> str:
    """As pg_lsn writes it."""
    return '%X/%X' % (position >> 32, position & 0xFFFFFFFF)


FACTS_SHOWN = ('USER', 'ROLE', 'APP_USER', 'APP_CONTEXT', 'DATABASE', 'APPLICATION', 'CLIENT', 'LEADER',
               'LEADER_SUBSTATEMENT', 'ENCODING')
FACTS_OF_CONNECTIONS = ('BACKEND_TYPE', 'AUTH_METHOD', 'IDENTITY')
SHARED_FACTS = ('USER', 'DATABASE', 'ROLE', 'IDENTITY')
CONNECTIONS = (KIND.CONNECT, KIND.AUTH_FAILED, KIND.DISCONNECT)
COLUMN_ACCESS = 1 << ACCESS.SELECT | 1 << ACCESS.INSERT | 1 << ACCESS.UPDATE


def shown_facts(record: Record) -> Iterator[Tuple[str, Any]]:
    encoding = record.session.fact(FACT.ENCODING)
    for symbol in FACTS_SHOWN + (FACTS_OF_CONNECTIONS if record.kind in CONNECTIONS else ()):
        number = FACT.number[symbol]
        value = record.session.fact(number)
        if not value:
            continue
        if symbol == 'LEADER_SUBSTATEMENT':
            if value.isdigit() and int(value) < 1 << 32:
                yield FACT.name[number], int(value)
        elif symbol in SHARED_FACTS:
            yield FACT.name[number], convert_name(value, encoding)
        else:
            yield FACT.name[number], convert(value, encoding)


def shown_access(access: int) -> str:
    return ','.join(ACCESS.names_of_bits(access, without=1 << ACCESS.AUDITED))


def shown_relations(record: Record) -> List[Dict[str, Any]]:
    encoding, shown = record.session.fact(FACT.ENCODING), []
    for relation in record.relations:
        entry: Dict[str, Any] = {'name': convert(relation.name, encoding), 'type': RELTYPE.name_of(relation.type),
                                 'access': shown_access(relation.access)}
        if relation.columns is not None:
            mask = relation.access & COLUMN_ACCESS
            for access, _ in relation.columns:
                mask |= access
            columns = {ACCESS.name_of(bit): [convert(name, encoding) for access, name in relation.columns
                                             if name and access & 1 << bit]
                       for bit in range(mask.bit_length()) if mask & 1 << bit}
            if columns:
                entry['columns'] = columns
            omitted = omitted_columns(relation)
            if omitted:
                entry['columns_omitted'] = ','.join(ACCESS.names_of_bits(omitted))
        if 1 <= relation.via <= len(record.relations):
            entry['via'] = convert(record.relations[relation.via - 1].name, encoding)
        if relation.access & 1 << ACCESS.AUDITED:
            entry['audited'] = True
        shown.append(entry)
    return shown


def omitted_columns(relation: Relation) -> int:
    """The access bits of the columns that are left out."""
    return next((access for access, name in relation.columns or () if not name), 0)


def shown_objects(record: Record) -> List[Dict[str, Any]]:
    encoding, shown = record.session.fact(FACT.ENCODING), []
    for entry in record.objects:
        name = convert_name if entry.type in SHARED_TYPES else convert
        shown.append({'name': name(entry.name, encoding), 'type': convert(entry.type, encoding),
                      'action': ACTION.name_of(entry.action)})
        if entry.to:
            shown[-1]['to'] = name(entry.to, encoding)
    return shown


def shown_extra(record: Record) -> Dict[str, str]:
    encoding, extra = record.session.fact(FACT.ENCODING), {}
    if record.event is not None:
        extra['event'] = EVENT.name_of(record.event)
    if record.statements is not None:
        extra['statements'] = str(record.statements)
    if record.commit is not None:
        extra['commit_lsn'], extra['end_lsn'] = map(shown_position, record.commit[:2])
        extra['timeline'] = str(record.commit[2])
    for name, value in record.extra or ():
        if name != b'portal' or not record.is_statement:  # which is a field of its own
            extra.setdefault(convert(name, encoding), convert(value, encoding))
    return extra


@dataclass
class Origin:
    """The server that has recorded something, as a record of its start says."""
    time: int
    host: bytes
    cluster_name: bytes


def origins_of(trail: Trail) -> List[Origin]:
    starts = [Origin(record.time, record.says('host') or b'', record.says('cluster_name') or b'')
              for record in server_records(trail, 'start') + server_records(trail, 'branch')
              if record.says('host') is not None]
    return sorted(starts, key=lambda start: start.time)


def origin_of(record: Record, origins: List[Origin]) -> Optional[Origin]:
    """The last start before a record."""
    before = [origin for origin in origins if origin.time <= record.time]
    return before[-1] if before else None


def shown_record(trail: Trail, record: Record, origins: List[Origin]) -> Dict[str, Any]:
    encoding, shape = record.session.fact(FACT.ENCODING), record.shape
    shown: Dict[str, Any] = {'time': shown_time(record.time), 'kind': KIND.name_of(record.kind),
                             'session': session_name(record.session)}

    def add(name: str, value: Any) -> None:
        """Add a field, unless it is absent."""
        if value not in (None, '', [], {}):
            shown[name] = value

    add('seq', record.seq or None)
    add('statement', record.statement or None)
    add('substatement', record.substatement or None)
    add('depth', record.depth or None)
    shown['pid'] = record.session.pid
    shown.update(shown_facts(record))
    if shape is not None:
        add('class', CLASS.name_of(shape.cls) if shape.cls else None)
        add('command', convert(shape.tag, encoding))
        add('query_command', convert(shape.query, encoding))
        add('prepared', convert(shape.prepared, encoding))
    add('relations', shown_relations(record))
    add('objects', shown_objects(record))
    if record.text is not None:
        shown['text'] = convert(record.text, encoding)
    if record.cut is not None:
        shown['text_bytes'] = record.cut[0]
        if not zeros(record.cut[1]):
            shown['text_sha256'] = record.cut[1].hex()
    if shape is not None and shape.parameters and (record.values, record.nulls) != (None, None):
        values = shown_values(record)
        if values or shape.parameters[-1].type:
            shown['params'] = values
    add('query_id', signed(shape.query_id) or None if shape else None)
    add('rows', record.rows)
    add('duration_us', record.duration)
    if record.outcome is not None or record.is_statement or record.kind in (KIND.CONNECT, KIND.AUTH_FAILED):
        shown['outcome'] = OUTCOME.name_of(record.result)
    add('sqlstate', convert(record.sqlstate or b'', encoding))
    add('message', convert(record.message, encoding))
    for name in TIMES:
        add(name, record.times.get(name))
    add('xid', record.xid or None)
    add('rolled_back', record.rolled_back or None)
    add('portal', convert(record.says('portal') or b'', encoding) if record.is_statement else None)
    add('extra', shown_extra(record))
    if record.audited is not None and record.audited != 1 << AUDITED.SESSION:
        add('audited', AUDITED.names_of_bits(record.audited))
    segment = record.block.segment
    shown['stream'], shown['segment'], shown['block'] = segment.stream, segment.number, record.block.number
    origin = origin_of(record, origins)
    if origin is not None:
        add('host', convert(origin.host, b''))
        add('cluster_name', convert(origin.cluster_name, b''))
    header = header_near(trail, segment)
    if header is not None:
        shown['system_identifier'] = str(header.system_identifier)
    return shown


def shown_lines(trail: Trail) -> Iterator[Dict[str, Any]]:
    """All records, by time, start of the session, process ID and sequence number."""
    origins = origins_of(trail)
    for record in sorted(trail.records(), key=lambda r: (r.time, r.session.start, r.session.pid, r.seq)):
        yield shown_record(trail, record, origins)


# ---- Shown form: the lines of format/golden --------------------------------------------------------------------------


def golden_string(data: bytes) -> Any:
    return data.decode('ascii') if all(0x20 <= byte < 0x7F for byte in data) else {'hex': data.hex()}


def golden_relation(relation: Relation) -> Dict[str, Any]:
    shown: Dict[str, Any] = {'type': relation.type, 'access': relation.access, 'name': golden_string(relation.name)}
    if relation.columns is not None:
        shown['columns'] = [{'access': access, 'name': golden_string(name)}
                            for access, name in relation.columns if name]
        shown['omitted'] = omitted_columns(relation)
        shown['via'] = relation.via
    return shown


def golden_shape(record: Record, shape: Shape) -> Dict[str, Any]:
    return {
        'class': shape.cls, 'query_id': shape.query_id, 'tag': golden_string(shape.tag),
        'relations': [golden_relation(relation) for relation in record.relations],
        'params': [{'type': value.parameter.type, 'repr': value.parameter.repr,
                    'value': None if value.data is None else value.data.hex()} for value in values_of(record)],
        'objects': [{'action': entry.action, 'type': golden_string(entry.type), 'name': golden_string(entry.name),
                     'to': golden_string(entry.to)} for entry in record.objects]}


def golden_record(record: Record) -> Dict[str, Any]:
    session, segment = record.session, record.block.segment
    shown: Dict[str, Any] = {
        'stream': segment.stream, 'segment': segment.number, 'block': record.block.number, 'record': record.number,
        'kind': record.kind, 'session': {'start': session.start, 'pid': session.pid,
                                         'facts': {str(key): golden_string(value) for key, value in session.facts}},
        'seq': record.seq, 'statement': record.statement, 'time': record.time}
    if record.shape is not None:
        shown.update(golden_shape(record, record.shape))
    shown['text'] = None if record.text is None else golden_string(record.text)
    shown['rows'], shown['duration_us'] = record.rows, record.duration
    if record.depth is not None:
        shown['depth'], shown['substatement'] = record.depth, record.substatement
    shown['outcome'] = record.result
    if record.sqlstate is not None:
        shown['sqlstate'], shown['message'] = golden_string(record.sqlstate), golden_string(record.message)
    shown['xid'] = record.xid
    if record.cut is not None:
        shown['text_bytes'], shown['text_sha256'] = record.cut[0], record.cut[1].hex()
    shown['parts'] = record.parts
    if record.extra is not None:
        shown['extra'] = [[golden_string(name), golden_string(value)] for name, value in record.extra]
    shown['audited'], shown['event'], shown['statements'] = record.audited, record.event, record.statements
    if record.commit is not None:
        shown['lsn'], shown['lsn_end'], shown['timeline'] = record.commit
    return {key: value for key, value in shown.items() if value is not None}


# ---- Verification: what must agree -----------------------------------------------------------------------------------


class StreamCheck:
    """Follows the numbers and hashes of one stream, block by block."""

    def __init__(self, trail: Trail, deletions: List[Record]):
        self.trail, self.deletions = trail, deletions
        self.next_block: Optional[int] = 1  # nothing: not known, because something is damaged or missing
        self.next_record = 1
        self.chain: Optional[bytes] = bytes(32)  # of the last block
        self.before: Optional[bytes] = None  # what the chain hash of the next block covers besides itself

    def forget(self) -> None:
        self.next_block = self.chain = self.before = None

    def check(self, segments: List[Segment]) -> None:
        previous, before = 0, None
        for segment in segments:
            if segment.number > previous + 1:
                self.check_missing(segment, previous)
            self.check_header(segment)
            if before is not None and segment.number == previous + 1:
                self.check_times(segment, before)
            previous, before = segment.number, segment
            for block in segment.blocks:
                if block.after_damage:
                    self.forget()
                if not block.torn:
                    self.check_block(block)
            if segment.ends_unknown or (segment.header is None and not segment.blocks):
                self.forget()

    def check_missing(self, segment: Segment, previous: int) -> None:
        """Segments before this one do not exist."""
        deleted: Set[int] = set()
        chains = set()
        for record in self.deletions:
            first, last = record.number_of('since_segment'), record.number_of('last_segment')
            if record.number_of('stream') == segment.stream and first is not None and last is not None:
                deleted.update(range(max(first, previous + 1), min(last + 1, segment.number)))
                if last == segment.number - 1:
                    chains.add(record.says('chain'))
        absent = [number for number in range(previous + 1, segment.number) if number not in deleted]
        if absent:
            self.trail.report('missing', Segment(segment.stream, absent[0], ''), 0, '%d segments' % len(absent))
        elif chains and segment.header is not None and segment.header.chain.hex().encode() not in chains:
            self.trail.report('chain', segment, 0, 'not the hash that the record of the deletion has')
        self.forget()

    def check_header(self, segment: Segment) -> None:
        header, report = segment.header, self.trail.report
        if header is None:
            self.forget()
            return
        if (header.stream, header.number) != (segment.stream, segment.number):
            report('number', segment, 0, 'this is segment %d of stream %d' % (header.number, header.stream))
            self.forget()
        elif self.next_block is not None and (header.first_block, header.first_record) != (self.next_block,
                                                                                         self.next_record):
            report('number', segment, 0, 'begins with block %d instead of %d' % (header.first_block, self.next_block))
            self.forget()
        elif self.chain is not None and header.chain != self.chain:
            report('chain', segment, 0, 'not the hash of the block before')
        self.next_block, self.next_record, self.chain = header.first_block, header.first_record, header.chain
        self.before = hashlib.sha256(segment.head).digest()

    def check_times(self, segment: Segment, before: Segment) -> None:
        """A header says between which times the records of the segment before are, or 0 and 0: nothing."""
        header = segment.header
        if header is None or (header.before_first_time, header.before_last_end) == (0, 0):
            return
        own = [block.header for block in before.blocks if block.number < header.first_block]
        first = min((block.first_time for block in own if block.records), default=(1 << 63) - 1)
        last = max((block.last_end for block in own if block.records), default=-1 << 63)
        whole = before.header is not None and not before.gaps and len(own) == len(before.blocks) and \
            len(own) == header.first_block - before.header.first_block
        if (header.before_first_time, header.before_last_end) == (first, last):
            return
        # of a segment that is not whole, the times of what is left are between these
        if whole or header.before_first_time > first or header.before_last_end < last:
            self.trail.report('content', segment, 0, 'not the times of the segment before')

    def check_block(self, block: Block) -> None:
        """Each block is compared with what the one before it says, whether that is right or not."""
        header = block.header
        if self.next_block is not None and (header.number, header.first_record) != (self.next_block, self.next_record):
            self.trail.report_block('number', block, 'block %d with record %d instead of %d with %d' % (
                header.number, header.first_record, self.next_block, self.next_record))
        elif block.whole and self.before is not None and \
                header.chain != hashlib.sha256(self.before + block.head + block.stored).digest():
            self.trail.report_block('chain', block, 'not the hash of what is before, and of this block')
        self.next_block, self.next_record = header.number + 1, header.first_record + header.records
        self.chain = self.before = header.chain


def check_contents(trail: Trail) -> None:
    """What a block's header says of its records, and what each record must have."""
    for block in trail.blocks():
        if block.content is None:
            continue
        header, records = block.header, block.content.records
        for record in records:
            problem = wrong_record(record)
            if problem:
                trail.report_block('content', block, 'record %d of session %s: %s' % (
                    record.seq, session_name(record.session), problem))
        if not block.content.complete:
            continue
        if len(records) != header.records:
            block.content.complete = False
            trail.report_block('content', block, '%d records instead of %d' % (len(records), header.records))
        elif records:
            times = min(r.time for r in records), min(r.end for r in records), max(r.end for r in records)
            if times != (header.first_time, header.first_end, header.last_end):
                trail.report_block('content', block, 'the times of its records are not those of its header')


def wrong_record(record: Record) -> str:
    """What is wrong with a record by itself."""
    if not record.seq and record.kind != KIND.START:
        return 'it has no number'
    if not values_of(record).fits:
        return 'its values%s are not as their types say' % (
            ', some of which are in data parts,' if record.parts and record.parts[1] else '')
    if record.kind == KIND.GAP:
        first, last = record.number_of('first_seq') or 0, record.number_of('last_seq') or 0
        if 0 < first <= last != record.seq - 1:
            return 'its number is not the one after those that are lost'
    return ''


def check_system_identifiers(trail: Trail) -> None:
    found: Optional[int] = None
    for segment in trail.segments():
        if segment.header is not None:
            found = segment.header.system_identifier if found is None else found
            if segment.header.system_identifier != found:
                trail.report('foreign', segment, 0, 'a segment of another server')


def server_records(trail: Trail, event: str) -> List[Record]:
    return [record for record in trail.records()
            if record.kind == KIND.SERVER and record.says('event') == event.encode()]


def numbers_elsewhere(trail: Trail) -> Dict[str, int]:
    """Up to which number the records of a session are in another trail, by its name."""
    found: Dict[str, int] = {}
    for record in server_records(trail, 'other_trail'):
        session, last = record.says('session'), record.number_of('last_seq')
        if session is not None and last is not None:
            found[session.decode('ascii', 'replace')] = last
    return found


def check_sessions(trail: Trail) -> None:
    """Sequence numbers of sessions: none is there twice, none is missing that no gap record stands for."""
    sessions: Dict[Tuple[int, int], List[Record]] = defaultdict(list)
    for record in trail.records():
        if record.seq:
            sessions[record.session.key].append(record)
    elsewhere = numbers_elsewhere(trail)
    partial = any(segments[0].number > 1 for segments in trail.streams.values())
    for records in sessions.values():
        check_session(trail, records, elsewhere.get(session_name(records[0].session), 0), partial)


def check_session(trail: Trail, records: List[Record], elsewhere: int, partial: bool) -> None:
    """The records of one session: those up to a number may be elsewhere; partial: the first ones may be deleted."""
    explained = [(1, elsewhere)] if elsewhere else []
    for record in records:
        first, last = record.number_of('first_seq') or 0, record.number_of('last_seq') or 0
        if record.kind == KIND.GAP and 0 < first <= last:
            explained.append((first, last))
    explained.sort()
    ordered = sorted(records, key=lambda record: record.seq)
    expected = ordered[0].seq if partial else 1
    ends = [record.seq for record in records if record.kind == KIND.DISCONNECT]
    for record in ordered:
        if record.seq < expected:
            trail.report_session('session', record, record.seq, record.seq, 'is there twice')
        # what is missing may be in blocks that cannot be read
        for first, last in () if trail.unreadable else holes(expected, record.seq - 1, explained):
            trail.report_session('session', record, first, last, 'missing')
        if ends and record.seq > ends[-1]:
            trail.report_session('session', record, record.seq, record.seq, 'after the end of the session')
        if any(first <= record.seq <= last for first, last in explained if (first, last) != (1, elsewhere)):
            trail.report_session('session', record, record.seq, record.seq, 'lost, according to a gap record')
        expected = max(expected, record.seq + 1)


def holes(first: int, last: int, explained: List[Tuple[int, int]]) -> Iterator[Tuple[int, int]]:
    """The parts of a range of numbers that none of some sorted ranges covers."""
    for begin, end in explained:
        if begin > last:
            break
        if begin > first:
            yield first, begin - 1
        first = max(first, end + 1)
    if first <= last:
        yield first, last


def check_streams(trail: Trail) -> None:
    """A server makes the folders of all its streams, which are numbered from 0."""
    for stream in range(max(trail.streams, default=0)):
        if stream not in trail.streams:
            trail.report('missing', Segment(stream, 0, ''), 0, 'the stream is missing')
    if not trail.streams:
        trail.report('missing', Segment(0, 0, ''), 0, 'there is no segment')


def check_deletions(trail: Trail) -> None:
    for record in server_records(trail, 'deleted'):
        if record.number_of('missing'):
            trail.report_block('missing', record.block, 'segments did not exist when they were to be deleted')


def check_branches(trail: Trail) -> None:
    """A stream that another one continues has the last block that counts, and none after it."""
    for record in server_records(trail, 'branch'):
        stream, number, chain = record.number_of('stream'), record.number_of('block'), record.says('hash')
        if stream is None or number is None or chain is None:
            continue
        blocks = [block for segment in trail.streams.get(stream, []) for block in segment.intact_blocks()]
        for block in blocks:
            if block.number == number and block.header.chain.hex().encode() != chain:
                trail.report_block('branch', block, 'not the block that the record of a branch names')
        after = [block for block in blocks if block.number > number]
        if after:
            trail.report_block('branch', after[0], 'a block after the last one that counts')
        if number and blocks and blocks[-1].number < number:
            trail.report_block('branch', blocks[-1], 'block %d is missing behind it' % number)


# seals


def read_public_key(path: str) -> bytes:
    from cryptography.hazmat.primitives import serialization
    with open(path, 'rb') as file:
        key = serialization.load_pem_public_key(file.read())
    return key.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)


def key_id(key: bytes) -> str:
    return hashlib.sha256(key).digest()[:8].hex()


@dataclass
class Seal:
    """A seal, and the block before the one that contains it."""
    record: Record
    before: Optional[Block]
    values: Dict[str, str]

    def number(self, name: str) -> int:
        value = self.values.get(name, '')
        return int(value) if re.fullmatch('[0-9]{1,20}', value) else -1

    def check_form(self) -> None:
        """Whether the values are as FORMAT.md says."""
        digits = {'hash': 64, 'key': 16, 'signature': 128}
        if self.reason == 'key':
            digits['next_key'] = 64
        for name, length in digits.items():
            if not re.fullmatch('[0-9a-f]{%d}' % length, self.values.get(name, '')):
                raise Malformed('%s has not %d hexadecimal digits' % (name, length))
        if min(self.number(name) for name in ('block', 'record', 'first', 'interval')) < 0:
            raise Malformed('a number is missing')

    @property
    def reason(self) -> str:
        return self.values.get('reason', '')

    def signed_bytes(self) -> bytes:
        header = self.record.block.segment.header
        if header is None:
            raise Malformed('the segment header, which a seal signs, is damaged')
        try:
            return struct.pack('<16sQIIQQQQq32s32s8s', b'pg_steno seal v1', header.system_identifier, header.stream,
                               self.number('interval'), header.number, self.number('block'), self.number('record'),
                               self.number('first'), self.record.time, bytes.fromhex(self.values['hash']),
                               bytes.fromhex(self.values.get('next_key', '')), self.reason.encode())
        except (KeyError, ValueError, struct.error):
            raise Malformed('a seal that is not complete') from None

    def verify(self, key: bytes) -> None:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
        try:
            signature = bytes.fromhex(self.values.get('signature', ''))
            Ed25519PublicKey.from_public_bytes(key).verify(signature, self.signed_bytes())
        except (InvalidSignature, ValueError):
            raise Malformed('the signature is wrong') from None


def seals_of(blocks: List[Block]) -> List[Seal]:
    found = []
    for index, block in enumerate(blocks):
        for record in block.content.records if block.content else ():
            if record.kind == KIND.SEAL:
                values = {name.decode('ascii', 'replace'): value.decode('ascii', 'replace')
                          for name, value in record.extra or ()}
                found.append(Seal(record, blocks[index - 1] if index else None, values))
    return found


def only_seals(block: Block) -> bool:
    content = block.content
    return bool(content and content.records) and all(record.kind == KIND.SEAL for record in content.records)


def check_seals(trail: Trail, public_keys: List[bytes]) -> Dict[str, int]:
    """Check the seals of all streams; their signatures, and whether any is missing, only with keys."""
    counts = {'seals': 0, 'checked': 0}
    for segments in trail.streams.values():
        blocks = [block for segment in segments for block in segment.intact_blocks()]
        seals = seals_of(blocks)
        counts['seals'] += len(seals)
        trusted = {key_id(key): key for key in public_keys}
        for seal in seals:
            try:
                seal.check_form()
                check_place_of_seal(seal)
                if public_keys:
                    key = trusted.get(seal.values.get('key', ''))
                    if key is None:
                        raise Malformed('by an unknown key')
                    seal.verify(key)
                    counts['checked'] += 1
                    if seal.reason == 'key':
                        successor = bytes.fromhex(seal.values.get('next_key', ''))
                        trusted[key_id(successor)] = successor
            except Malformed as error:
                trail.report_block('seal', seal.record.block, 'a seal: %s' % error)
        if public_keys:
            if not seals and blocks:
                trail.report('seal', segments[-1], 0, 'the stream has no seals')
            check_due_seals(trail, segments, blocks, seals)
    return counts


def check_place_of_seal(seal: Seal) -> None:
    """A seal says what the block before its own is."""
    before = seal.before
    if before is None or before.number != seal.record.block.number - 1:
        return  # it does not exist any more, or is damaged
    last_record = before.header.first_record + before.header.records - 1
    if (seal.number('block'), seal.number('record')) != (before.number, last_record):
        raise Malformed('it is not about the block before')
    if seal.values.get('hash') != before.header.chain.hex():
        raise Malformed('it has not the hash of the block before')


def check_due_seals(trail: Trail, segments: List[Segment], blocks: List[Block], seals: List[Seal]) -> None:
    runs = {seal.number('first') for seal in seals}
    for index, segment in enumerate(segments[:-1]):
        inside = list(segment.intact_blocks())
        before = [seal for seal in seals if seal.record.block.segment.number <= segment.number]
        if not inside or not before or before[-1].reason == 'end' or only_seals(inside[-1]):
            continue
        following = inside[-1].number + 1
        ends_here = not any(block.number >= following for block in blocks)
        if following not in runs and not ends_here:
            trail.report('seal', segment, inside[-1].offset, 'the segment does not end with a seal')
    for seal in seals:
        after = [block for block in blocks if block.number > seal.record.block.number]
        if seal.reason == 'stop' and after:
            start = next((other for other in seals if other.record.block is after[0]
                          and other.number('first') != seal.number('first')), None)
            if not only_seals(after[0]) or start is None or start.reason != 'start' \
                    or start.number('first') != after[0].number:
                trail.report_block('seal', after[0], 'no seal of a start after that of a stop')
        check_interval(trail, seal, seals, after)


SEAL_SLACK = 10 * 1000000  # times of seals and of records are taken by different clocks


def check_interval(trail: Trail, seal: Seal, seals: List[Seal], after: List[Block]) -> None:
    """The blocks after a seal that no other seal of its run covers end in time, but for the last one."""
    interval = seal.number('interval')
    if interval <= 0 or not after:
        return
    following = next((other for other in seals if other.record.block.number > seal.record.block.number), None)
    end = after[-1].number + 1 if following is None else following.number('first')
    for block in [block for block in after if block.number < end][:-1]:
        if block.header.last_end > seal.record.time + interval * 1000000 + SEAL_SLACK:
            trail.report_block('seal', block, 'no seal within the interval')
            return


# indexes


class Index:
    """An index: which groups of blocks contain which terms."""

    def __init__(self, data: bytes):
        item = Bytes(data)
        self.first, self.count, self.group = item.varint(), item.varint(), item.varint()
        if not self.count or bin(self.group).count('1') != 1:
            raise Malformed('%d blocks in groups of %d' % (self.count, self.group))
        self.groups = (self.count + self.group - 1) // self.group
        if self.groups > 1024:
            raise Malformed('%d groups' % self.groups)
        if not self.first or self.first + self.count > U64:
            raise Malformed('it covers no blocks')
        self.omitted: Dict[int, bytes] = {}
        self.terms: Dict[int, Dict[bytes, bytes]] = {}
        self.filters: List[bytes] = []
        while item.left():
            number, entries = item.varint(), Bytes(item.string())
            if number == TERMS.TRIGRAMS:
                self.omitted[number] = self.set(entries)
                length = entries.varint()
                if length != 512:
                    continue  # of a later version
                self.filters = [entries.take(length) for _ in range(self.groups)]
            elif number in TERMS.name:
                self.omitted[number] = self.set(entries)
                self.terms[number] = {}
                for _ in range(Decoder.count(entries)):
                    term = entries.string()
                    self.terms[number][term] = self.set(entries)

    def set(self, item: Bytes) -> bytes:
        return item.take((self.groups + 7) // 8)

    def may_have(self, number: int, group: int, term: bytes) -> bool:
        if number not in self.terms:
            return True
        has = self.terms[number].get(term, bytes(len(self.omitted[number])))
        return bool((has[group // 8] | self.omitted[number][group // 8]) >> group % 8 & 1)

    def may_lack(self, number: int, group: int) -> bool:
        """Whether a group may have terms of a list that the index omits."""
        return number not in self.omitted or bool(self.omitted[number][group // 8] >> group % 8 & 1)

    def may_have_trigrams(self, group: int, bits: Set[int]) -> bool:
        if not self.filters or self.omitted[TERMS.TRIGRAMS][group // 8] >> group % 8 & 1:
            return True
        return all(self.filters[group][bit // 8] >> bit % 8 & 1 for bit in bits)


def trigrams(text: bytes) -> Set[int]:
    """The bits of a filter for the trigrams of a text."""
    lower = text.lower()  # of bytes: A to Z alone
    found = {lower[at:at + 3] for at in range(len(lower) - 2)}
    return {(int.from_bytes(three, 'big') * 0x9E3779B1 & 0xFFFFFFFF) >> 20
            for three in found if all(0x20 <= byte <= 0x7E for byte in three)}


def terms_of(content: Content) -> Set[Tuple[int, bytes]]:
    """The terms that a block contains, with the numbers of their lists."""
    found: Set[Tuple[int, bytes]] = set()
    facts = {FACT.USER: TERMS.USERS, FACT.DATABASE: TERMS.DATABASES, FACT.ROLE: TERMS.ROLES,
             FACT.APPLICATION: TERMS.APPLICATIONS, FACT.APP_USER: TERMS.APP_USERS, FACT.ENCODING: TERMS.ENCODINGS}
    for session in content.sessions:
        found.update((terms, session.fact(key)) for key, terms in facts.items() if session.fact(key))
    for shape in content.shapes:
        found.add((TERMS.CLASSES, varint(shape.cls)))
        found.add((TERMS.COMMANDS, shape.tag))
        found.update((TERMS.VALUES, bytes([parameter.repr])) for parameter in shape.parameters)
        for relation in shape.relations:
            found.add((TERMS.RELATIONS, varint(relation.access) + relation.name))
            found.update((TERMS.COLUMNS, term) for term in column_terms(relation))
        for entry in shape.objects:
            found.add((TERMS.OBJECTS, bytes([entry.action]) + entry.name))
            if entry.to:
                found.add((TERMS.OBJECTS, bytes([entry.action]) + entry.to))
    for record in content.records:
        if record.kind != KIND.STATEMENT or record.result != OUTCOME.OK:
            found.add((TERMS.RESULTS, bytes([record.kind, record.result])))
        if record.sqlstate is not None:
            found.add((TERMS.SQLSTATES, record.sqlstate))
        for name, _ in record.extra or ():
            if name.endswith(b'_omitted'):
                found.add((TERMS.OMISSIONS, name[:-len(b'_omitted')]))
            elif name == b'unseen':
                found.add((TERMS.OMISSIONS, b'statements'))
        if record.cut is not None:
            found.add((TERMS.OMISSIONS, b'text'))
    return found


def column_terms(relation: Relation) -> Iterator[bytes]:
    columns = relation.columns
    if columns is None:
        access = relation.access & COLUMN_ACCESS
        columns = ((access, b''),) if access else ()
    for access, name in columns:
        yield varint(access) + varint(len(relation.name)) + relation.name + name


def check_indexes(trail: Trail) -> None:
    for segment in trail.segments():
        blocks = {block.number: block for block in segment.intact_blocks()}
        for block in blocks.values():
            if block.content is None or not block.content.complete or block.content.index is None:
                continue
            try:
                index = Index(block.content.index)
                first = segment.header.first_block if segment.header else 1
                if index.first < first or index.first + index.count > block.number:
                    raise Malformed('it covers blocks that are not before it in its segment')
            except Malformed as error:
                trail.report_block('index', block, str(error))
                continue
            for number in range(index.first, index.first + index.count):
                covered = blocks.get(number)
                try:
                    if covered is not None and covered.content is not None and covered.content.complete:
                        check_index(index, covered)
                except Malformed as error:
                    trail.report_block('index', covered, str(error))


def check_index(index: Index, block: Block) -> None:
    """Whether an index hides something of a block that it covers."""
    number, content = block.number, block.content
    group = (number - index.first) // index.group
    for which, term in terms_of(content):
        if not index.may_have(which, group, term):
            raise Malformed('the index of its segment hides one of its %s' % TERMS.name_of(which))
    texts = content.texts + [record.stored_message for record in content.records]
    parts = any(record.parts is not None for record in content.records)
    if parts and not index.may_lack(TERMS.TRIGRAMS, group) or not all(
            index.may_have_trigrams(group, trigrams(text)) for text in texts):
        raise Malformed('the index of its segment hides a text')
    lists = TERMS.RELATIONS, TERMS.COLUMNS, TERMS.OBJECTS
    if any(record.goes_on for record in content.records) and not all(index.may_lack(which, group) for which in lists):
        raise Malformed('the index of its segment hides relations or objects in data parts')


def verify(trail: Trail, public_keys: List[bytes]) -> Dict[str, Any]:
    """Check everything, and return what --verify prints."""
    deletions = server_records(trail, 'deleted')
    for _, segments in sorted(trail.streams.items()):
        StreamCheck(trail, deletions).check(segments)
    check_streams(trail)
    check_contents(trail)
    check_system_identifiers(trail)
    check_sessions(trail)
    check_deletions(trail)
    check_branches(trail)
    check_indexes(trail)
    seals = check_seals(trail, public_keys)
    def ordered(problems: List[Problem]) -> List[Dict[str, Any]]:
        return [problem.shown() for problem in
                sorted(problems, key=lambda problem: (problem.stream, problem.segment, problem.offset))]

    return {'whole': not trail.problems, 'problems': ordered(trail.problems), 'notes': ordered(trail.notes),
            'unreadable': ordered(trail.unreadable), 'streams': len(trail.streams),
            'segments': sum(1 for _ in trail.segments()), 'blocks': sum(1 for _ in trail.blocks()),
            'records': sum(1 for _ in trail.records()), 'seals': seals['seals'], 'seals_checked': seals['checked']}


# ---- Command line ----------------------------------------------------------------------------------------------------


def read_trail(path: str, keys: Keys) -> Trail:
    trail = scan_trail(path)
    decode_trail(trail, keys)
    join_parts(trail)
    join_further(trail)
    mark_rolled_back(trail)
    return trail


def answer(path: str, options: argparse.Namespace, keys: Keys) -> Tuple[List[Any], Trail]:
    trail = read_trail(path, keys)
    if options.verify:
        return [verify(trail, [read_public_key(file) for file in options.key])], trail
    if options.golden:
        return [golden_record(record) for record in trail.records()], trail
    return list(shown_lines(trail)), trail


def print_answer(path: str, options: argparse.Namespace, keys: Keys) -> int:
    """Print what is asked for, and what is wrong on standard error; returns the exit code."""
    lines, trail = answer(path, options, keys)
    for line in lines:
        print(json.dumps(line, separators=(',', ':')))
    if not options.verify:
        for problem in trail.problems + trail.notes + trail.unreadable:
            print(json.dumps(problem.shown()), file=sys.stderr)
    return 1 if trail.problems else 3 if trail.unreadable else 0


def main() -> int:
    parser = argparse.ArgumentParser(description='A reference reader of the trail format.')
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument('--golden', action='store_true', help='lines as format/golden/README.md describes them')
    mode.add_argument('--verify', action='store_true', help='check the trail, and print one object')
    parser.add_argument('--encryption-key-file', action='append', default=[], metavar='FILE',
                        help='keys of an encrypted trail, in hexadecimal, one on each line')
    parser.add_argument('--key', action='append', default=[], metavar='FILE', help='public key of seals, with --verify')
    parser.add_argument('--many', action='store_true',
                        help='read paths of trails from standard input, and print {"end":CODE} after each')
    parser.add_argument('trail', nargs='?')
    options = parser.parse_args()
    if (options.trail is None) != options.many:
        parser.error('name a trail, or use --many')
    lines: List[str] = []
    for name in options.encryption_key_file:
        with open(name, encoding='ascii') as file:
            lines += file.read().split()
    keys = Keys(bytes.fromhex(line) for line in lines)
    if not options.many:
        return print_answer(options.trail, options, keys)
    for path in sys.stdin:
        print('{"end":%d}' % print_answer(path.rstrip('\n'), options, keys), flush=True)
    return 0


if __name__ == '__main__':
    sys.exit(main())
