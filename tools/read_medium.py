#!/usr/bin/env python3
"""Reads Capstan media without Capstan: lists, checks and extracts what lies on directories and tapes.

It is written from docs/format.md and docs/keys.md alone, not from the Rust code, so that it proves that the
documents are enough, and serves when the program is not at hand. It needs Python 3.11. Names are compressed on every medium: the
system's libzstd.so.1 opens them, which dpkg, systemd and the kernel's tools bring along, or else the Python module zstandard; LZ4
likewise (liblz4.so.1, lz4). An encrypted medium asks for the module cryptography, with a passphrase for argon2 too where that is older
than 44. What lacks is named. What is written "format.md: X"
names the section of that document.

    read_medium.py list MEDIUM... [--session ID]
    read_medium.py check MEDIUM...
    read_medium.py extract MEDIUM [--and MEDIUM]... --into DIR [--session ID] [PATH...]

MEDIUM is a directory, or the file of a virtual tape, or a directory into which the files of a tape were copied (below). Of an
array it is one member's; --member MEDIUM names each of the others that are there. A backup may span media, and an incremental
builds on what may lie on others: --and MEDIUM names each further one, in any order. Of copies and mirrors that are given too,
any one serves. What lacks is named: media that were not given, and files of which a part is on them; these are dated 1970.
Secrets: --passphrase-file, --key-file, --recovery-code, or CAPSTAN_PASSPHRASE in the environment. Exit status: 0 all well, 1 the
request failed, 3 something is damaged, incomplete, or on a medium that was not given (each is named).

A tape is copied by the system's own means, each of its files for itself, until the drive says that nothing is left:

    mt -f /dev/nst0 rewind; mt -f /dev/nst0 setblk 0
    n=0; while dd if=/dev/nst0 of=tape.$n bs=1M; do n=$((n + 1)); done
"""

import argparse
import base64
import ctypes
import errno
import fcntl
import functools
import grp
import hashlib
import heapq
import hmac
import importlib
import json
import os
import pwd
import re
import stat
import struct
import sys
import time
from bisect import bisect_right
from collections import OrderedDict, namedtuple
from dataclasses import dataclass, field, replace

STEP, MAX_BLOCK, MIB = 4096, 8 << 20, 1 << 20
SEGMENT_HEADER, DATA, CATALOG, SEGMENT_END, MEDIUM_HEADER, LOCK = 1, 2, 3, 4, 5, 6  # kinds of blocks
ATTACHMENT, ATTACHED, ATTACHMENT_END = 7, 8, 9
LABEL, BATCH, CONTENT, FILL, NAMES, SUMS, COPY, INDEX, SUMMARY, HEADER = 1, 2, 3, 4, 5, 6, 16, 17, 18, 19  # of frames
NO_FRAME, UNKNOWN = 0xFFFFFFFF, -1  # values of a block's "first frame"
REGULAR, DIRECTORY, SYMLINK, PIPE, SOCKET, CHAR, BLOCK, PART, OUTCOME, TOMBSTONE = range(10)  # kinds of rows
TYPE_BITS = [stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK, stat.S_IFIFO, stat.S_IFSOCK, stat.S_IFCHR, stat.S_IFBLK]
CHANGED, SHORT, UNREADABLE, REPLACED, IN_USE, VANISHED = range(1, 7)
OUTCOMES = ["", "changed while it was read", "was shorter than its row says", "could not be read", "replaced",
            "was in use while it was read", "vanished"]
CIPHERS = {"aes-256-gcm": (1, "AESGCM"), "chacha20-poly1305": (2, "ChaCha20Poly1305")}
FOR_NAMES, FOR_CONTENTS = 1, 2  # purposes of keys


class Damage(Exception):
    """A part of the medium is not as format.md says."""


class Failure(Exception):
    """The request cannot be carried out."""


def module(name, pip, why):
    """A module that not every medium asks for; where it is not installed, that is said."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise Failure(f"{why}, and the Python module {pip} is not installed; `pip install {pip}` does that, on Debian "
                      f"`apt install python3-{pip}`") from None


def cryptography(name):
    return module("cryptography." + name, "cryptography", "the medium is encrypted")


class Report:
    """Counts what is wrong, and prints it at once unless it is a quiet one; the same thing only once."""

    def __init__(self, stream=None):
        self.stream, self.count, self.said = stream, 0, set()

    def damage(self, where, what):
        if (where, what) not in self.said:
            self.count += 1
            self.note(where, what, "damage")

    def note(self, where, what, word="note"):
        if (where, what) not in self.said:
            self.said.add((where, what))
            if self.stream:
                print(f"{word}: {where}: {what}", file=self.stream)


def show(path):
    """A path's bytes as text for people: control characters and what is not UTF-8 escaped."""
    text = path.decode("utf-8", "backslashreplace") or "/"
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


# ---- Numbers and checksums (format.md: Conventions)

def crc_table():
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        yield byte


CRC_TABLE = list(crc_table())


def crc32c(data):
    """CRC-32C. Long input is first folded: the polynomial divides x^5685 + x^1362 + x^426 + 1, hence (squaring
    k times) also that with all exponents times 2^k, so the first bits of a message can be added to later ones
    without a change of the CRC. With integers as bit strings this costs a few shifts for megabytes."""
    if len(data) > 1024:
        value, bits = int.from_bytes(data, "little") ^ 0xFFFFFFFF, 8 * len(data)
        while bits > 8192:
            k = (bits // 2 // 5685).bit_length() - 1 if bits > 22740 else 0
            far, middle, near = 5685 << k, (5685 - 426) << k, (5685 - 1362) << k
            fold = min(near, bits - far) & ~7
            low = value & ((1 << fold) - 1)
            value = value >> fold ^ low << near - fold ^ low << middle - fold ^ low << far - fold
            bits -= fold
        data, crc = value.to_bytes(bits // 8, "little"), 0
    else:
        crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ CRC_TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def zeros(data):
    return not data or data.count(0) == len(data)


class Cursor:
    """Reads varints and bytes from a buffer, in which it never goes beyond the end."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def varint(self):
        value = shift = 0
        while True:
            if self.at >= len(self.data) or shift > 63:
                raise Damage("a varint is cut off or too long")
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if (byte == 0 and shift) or value >> 64:
                    raise Damage("a varint is not minimal or too large")
                return value
            shift += 7

    def zigzag(self):
        value = self.varint()
        return value >> 1 ^ -(value & 1)

    def take(self, count):
        if count > len(self.data) - self.at:
            raise Damage("bytes are cut off")
        self.at += count
        return self.data[self.at - count:self.at]

    def bytes(self):
        return self.take(self.varint())

    def more(self):
        return self.at < len(self.data)


# ---- Blocks and records (format.md: Blocks, Records)

MA = namedtuple("MA", "kind segment index length")
DA = namedtuple("DA", "stream position used first")


def parse_ma(raw):
    if len(raw) < 64 or raw[:4] != b"CpMA":
        raise Damage("no media agent's header")
    if crc32c(raw[:60]) != struct.unpack_from("<I", raw, 60)[0]:
        raise Damage("checksum of the media agent's header")
    version, kind, zero, segment, index, length = struct.unpack_from("<BBH16sII", raw, 4)
    if version != 1:
        raise Damage(f"block of version {version}, use a newer program")
    if not SEGMENT_HEADER <= kind <= ATTACHMENT_END or zero or not STEP <= length <= MAX_BLOCK or length % STEP:
        raise Damage("values of the media agent's header")
    return MA(kind, segment, index, length)


def parse_da(raw, length):
    if len(raw) < 128 or raw[64:68] != b"CpDA":
        raise Damage("no disk agent's header")
    if crc32c(raw[64:124]) != struct.unpack_from("<I", raw, 124)[0]:
        raise Damage("checksum of the disk agent's header")
    if raw[68] != 1 or raw[69:72] != bytes(3):
        raise Damage("values of the disk agent's header")
    da = DA(*struct.unpack_from("<16sQII", raw, 72))
    if da.used > length - 128 or da.used % 8 or (da.first != NO_FRAME and (da.first >= da.used or da.first % 8)):
        raise Damage("values of the disk agent's header")
    return da


def parse_json(raw, fields):
    """Decodes JSON, of which the named fields must be there with these types."""
    try:
        value = json.loads(raw.decode("utf-8"))
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        raise Damage(f"JSON: {error}") from None
    for name, kind in fields.items():
        if not isinstance(value, dict) or not isinstance(value.get(name), kind):
            raise Damage(f"JSON: {name} is missing or of the wrong type")
    return value


MEDIUM_FIELDS = {"format": int, "incompatible": int, "medium": str, "block_size": int}
HEADER_FIELDS = {"medium": dict, "segment": str, "session": dict, "keys": list}
LABEL_FIELDS = {"session": str, "object": str, "version": str, "started_us": int}
END_FIELDS = {"segment": str, "session": str, "data_blocks": int, "blocks": int, "catalog_at": int,
              "short_blocks": list, "streams": list}
ATTACHMENT_FIELDS = {"id": str, "number": int, "attachment": str, "length": int, "written_us": int}
LOCK_FIELDS = {"version": str, "until_us": int, "segments": list}
EXTENT_FIELDS = ("logical_start", "logical_end", "first_sequence", "frames", "rows")


def parse_record(block, kind, fields):
    """The JSON of a record block, and the block's media agent's header."""
    ma = parse_ma(block)
    if ma.kind != kind or len(block) < ma.length:
        raise Damage(f"block of kind {ma.kind}, cut off or not of the kind {kind} that belongs here")
    count, crc = struct.unpack_from("<II", block, 64)
    if count > MIB or count > ma.length - 72 or crc32c(block[72:72 + count]) != crc:
        raise Damage("length or checksum of the record")
    if not zeros(block[72 + count:ma.length]):
        raise Damage("bytes after the record that are not zero")
    return parse_json(block[72:72 + count], fields), ma


ARRAY = 1  # the incompatible feature that the medium is an array, or a member of one
DRIVE_KEY = 2  # the incompatible feature that the tape drive encrypts all behind the medium's header
PLACE_FIELDS = {"array": str, "layout": str, "members": int, "member": int}


def check_medium_header(header):
    if header["incompatible"] & DRIVE_KEY:
        raise Failure("the medium is encrypted by its tape drive (feature 2): only a drive that has its key reads it")
    if header["format"] != 1 or header["incompatible"] & ~ARRAY:
        raise Failure("the medium needs a newer program: format {format}, features {incompatible:#x}".format(**header))
    if not 65536 <= header["block_size"] <= MAX_BLOCK or header["block_size"] % STEP:
        raise Damage("block size of the medium header")
    return header


# ---- Frames (format.md: Frames)

Frame = namedtuple("Frame", "type codec flags sequence logical length stored crc raw")
Found = namedtuple("Found", "stream frame payload block byte pieces")  # payload None: damaged


def is_logical(frame):
    return frame.type in (CONTENT, FILL)


def parse_frame(raw, stream):
    if len(raw) < 48 or raw[:4] != b"CpFr":
        raise Damage("no frame header")
    if crc32c(stream + raw[:44]) != struct.unpack_from("<I", raw, 44)[0]:
        raise Damage("checksum of the frame header")
    kind, codec, flags, sequence, logical, length, stored, zero, crc = struct.unpack_from("<BBHQQQIII", raw, 4)
    frame = Frame(kind, codec, flags, sequence, logical, length, stored, crc, bytes(raw[:48]))
    known = kind in (LABEL, BATCH, CONTENT, NAMES, SUMS, INDEX, SUMMARY, HEADER)
    if zero or flags > 3 or stored > MIB + 80 or logical + length >> 64 or (known and length > MIB) \
            or (kind == COPY and length > MIB + 80) or (kind == FILL and (stored or codec or flags & 1)):
        raise Damage("values of the frame header")
    return frame


def check_payload(stream, frame, stored):
    if not frame.flags & 2 and crc32c(stream + struct.pack("<Q", frame.sequence) + stored) != frame.crc:
        raise Damage("checksum of the payload")


def open_payload(stream, frame, stored, keys, label):
    """Decrypts and decompresses a payload whose CRC has been checked. None if there is no key for it."""
    purpose = {BATCH: FOR_NAMES, NAMES: FOR_NAMES, SUMS: FOR_NAMES, CONTENT: FOR_CONTENTS}.get(frame.type)
    sealed = bool(frame.flags & 1)
    if sealed != bool(purpose and label and label.get("key")):
        raise Damage("a frame of an encrypted session is not sealed" if not sealed else "a sealed frame where none belongs")
    if sealed:
        cipher = keys.frame_cipher(label["key"], purpose, stream)
        if cipher is None:
            return None
        nonce = bytes(4) + struct.pack("<Q", frame.sequence)
        stored = open_sealed(cipher, nonce, stored, frame.raw[:40], "the payload does not open with the session's key")
    return decompress(frame.codec, stored, frame.length)


def decompress(codec, stored, length):
    if codec == 0:
        plain = stored
    elif codec == 1:
        plain = of_lz4(stored, length)
    elif codec == 2:
        plain = of_zstandard(stored, length)
    else:
        raise Damage(f"unknown codec {codec}")
    if len(plain) != length:
        raise Damage("length of the opened payload")
    return plain


def of_lz4(stored, length):
    library = system_library("liblz4.so.1")
    if library:
        plain = ctypes.create_string_buffer(max(length, 1))
        got = library.LZ4_decompress_safe(stored, plain, len(stored), length)
        if got != length:
            raise Damage(f"the payload does not decompress: LZ4 says {got}")
        return plain.raw[:length]
    lz4 = module("lz4.block", "lz4", "the medium is compressed with lz4")
    try:
        return lz4.decompress(stored, uncompressed_size=length)
    except (lz4.LZ4BlockError, ValueError) as error:
        raise Damage(f"the payload does not decompress: {error}") from None


def of_zstandard(stored, length):
    library = system_library("libzstd.so.1")
    if library:
        return of_libzstd(library, stored, length)
    zstandard = module("zstandard", "zstandard", "names on media are compressed with Zstandard")
    try:
        if zstandard.get_frame_parameters(stored).content_size not in (length, 2**64 - 1):
            raise Damage("length of the Zstandard frame")
        return zstandard.ZstdDecompressor().decompress(stored, max_output_size=length, allow_extra_data=False)
    except (zstandard.ZstdError, ValueError) as error:
        raise Damage(f"the payload does not decompress: {error}") from None


def of_libzstd(library, stored, length):
    """By the interface of zstd.h, which is stable since 1.4."""
    for function in ("ZSTD_getFrameContentSize", "ZSTD_findFrameCompressedSize", "ZSTD_decompress"):
        getattr(library, function).restype = ctypes.c_ulonglong
    size = ctypes.c_size_t
    # All but the length itself, or 2^64 - 1 where the frame does not say it, is another one or no frame.
    if library.ZSTD_getFrameContentSize(stored, size(len(stored))) not in (length, 2**64 - 1):
        raise Damage("length of the Zstandard frame")
    if library.ZSTD_findFrameCompressedSize(stored, size(len(stored))) != len(stored):
        raise Damage("the payload does not decompress: it is more, or less, than one Zstandard frame")
    plain = ctypes.create_string_buffer(max(length, 1))
    if library.ZSTD_decompress(plain, size(length), stored, size(len(stored))) != length:
        raise Damage("the payload does not decompress")
    return plain.raw[:length]


@functools.cache
def system_library(name):
    """A library that nearly every Linux system has; None where it has not."""
    try:
        return ctypes.CDLL(name)
    except OSError:
        return None


# ---- Keys (keys.md)

def aead(kind, key):
    return getattr(cryptography("hazmat.primitives.ciphers.aead"), kind)(key)


def open_sealed(cipher, nonce, sealed, context, failure):
    try:
        return cipher.decrypt(nonce, sealed, context)
    except cryptography("exceptions").InvalidTag:
        raise Damage(failure) from None


def hkdf(material, info, salt=None):
    sha256 = cryptography("hazmat.primitives.hashes").SHA256()
    return cryptography("hazmat.primitives.kdf.hkdf").HKDF(sha256, 32, salt, info).derive(material)


def unseal(key, context, sealed):
    return open_sealed(aead("ChaCha20Poly1305", key), bytes(12), sealed, context, "it does not open")


def x25519():
    return cryptography("hazmat.primitives.asymmetric.x25519")


def public_of(private):
    raw = cryptography("hazmat.primitives.serialization")
    key = x25519().X25519PrivateKey.from_private_bytes(private).public_key()
    return key.public_bytes(raw.Encoding.Raw, raw.PublicFormat.Raw)


def open_wrap(wrap, private, context):
    ephemeral = base64.b64decode(wrap["ephemeral"])
    public = x25519().X25519PublicKey.from_public_bytes(ephemeral)
    shared = x25519().X25519PrivateKey.from_private_bytes(private).exchange(public)
    key = hkdf(shared, b"capstan wrap v1" + ephemeral + public_of(private))
    return unseal(key, context, base64.b64decode(wrap["sealed"]))


def argon2id(password, salt, m_kib, passes, lanes):
    try:
        from cryptography.hazmat.primitives.kdf.argon2 import Argon2id
        return Argon2id(salt=salt, length=32, iterations=passes, lanes=lanes, memory_cost=m_kib).derive(password)
    except ImportError:
        argon2 = argon2_of_its_own()
        return argon2.hash_secret_raw(password, salt, passes, m_kib, lanes, 32, argon2.Type.ID, version=0x13)


def argon2_of_its_own():
    """The module that has Argon2 where cryptography is too old for it."""
    cryptography("hazmat")
    try:
        return importlib.import_module("argon2.low_level")
    except ImportError:
        raise Failure("a passphrase is opened with Argon2, which this cryptography module has not; `pip install argon2-cffi` adds "
                      "it, on Debian `apt install python3-argon2`") from None


def parse_recovery_code(text):
    """The 32 bytes of a recovery code: four lines of 8 bytes and 2 of check, in Crockford's base32."""
    text = re.sub(r"(?m)(?:^|\s)[1-4]\s*:", " ", text).upper()
    text = re.sub(r"[\s-]", "", text).translate(str.maketrans("OILU", "011V"))
    if len(text) != 64 or re.search(r"[^0-9A-HJKMNP-TV-Z]", text):
        raise Failure("the recovery code has not four lines of 16 characters; look for a missing or foreign one")
    code = b""
    for line in range(4):
        bits = 0
        for char in text[16 * line:16 * line + 16]:
            bits = bits << 5 | "0123456789ABCDEFGHJKMNPQRSTVWXYZ".index(char)
        raw = bits.to_bytes(10, "big")
        if hashlib.sha256(b"capstan recovery line v1" + bytes([line + 1]) + raw[:8]).digest()[:2] != raw[8:]:
            raise Failure(f"line {line + 1} of the recovery code has a typing error")
        code += raw[:8]
    return code


class Keys:
    """The secrets given, and the session keys that they open."""

    def __init__(self, report, passphrase=None, key_file=None, code=None):
        self.report, self.passphrase, self.key_file, self.code = report, passphrase, key_file, code
        self.records, self.sessions, self.ciphers, self.roots = {}, {}, {}, {}

    def add(self, records):
        """Takes the key records of a segment header."""
        for record in records:
            if isinstance(record, dict) and isinstance(record.get("id"), str):
                self.records.setdefault(record["id"].lower(), record)

    def frame_cipher(self, key_id, purpose, stream):
        """The cipher for a stream's frames, or None if no secret opens the session's key."""
        key_id = key_id.lower()
        at = (key_id, purpose, stream)
        if at not in self.ciphers:
            if key_id not in self.sessions:
                self.sessions[key_id] = self.open_record(key_id)
            key, record = self.sessions[key_id].get(purpose), self.records.get(key_id)
            if key is not None:
                number, kind = CIPHERS[record["cipher"]]
                key = aead(kind, hkdf(key, b"capstan frame v1" + bytes([purpose]) + stream + bytes([number])))
            self.ciphers[at] = key
        return self.ciphers[at]

    def open_record(self, key_id):
        """The session keys by purpose, as far as a secret opens them."""
        found, record, where = {}, self.records.get(key_id), f"key record {key_id}"
        if record is None:
            self.report.damage(where, "it is in no segment header")
            return found
        try:
            if record["version"] != 1 or record["cipher"] not in CIPHERS:
                raise Damage("its version or cipher is not known")
            # The newest secret may open this session's pairs by a newer copy of the ring only.
            others = [other["ring"] for other in self.records.values() if other is not record]
            for ring in [record["ring"], *sorted(others, key=lambda ring: -len(ring["pairs"]))]:
                pairs = self.unlock(ring, where)
                for purpose, name in ((FOR_NAMES, "names"), (FOR_CONTENTS, "contents")):
                    tail = bytes.fromhex(key_id) + bytes([purpose, CIPHERS[record["cipher"]][0]])
                    for wrap in record[name]["wraps"][:64]:
                        private = pairs.get(wrap["to"], {}).get(purpose)
                        if private is None or purpose in found:
                            continue
                        key = open_wrap(wrap, private, b"capstan session key v1" + tail)
                        if not hmac.compare_digest(hkdf(key, b"capstan commit v1" + tail),
                                                   base64.b64decode(record[name]["commit"])):
                            raise Damage(f"the {name} key is not the session's")
                        found[purpose] = key
                if len(found) == 2:
                    break
        except (Damage, KeyError, TypeError, ValueError, AttributeError) as error:
            self.report.damage(where, str(error) or type(error).__name__)
        return found

    def unlock(self, ring, where):
        """The private halves of the ring's pairs, by pair id and purpose; from the newest pair to the oldest."""
        if ring["version"] != 1:
            raise Damage("the key ring has an unknown version")
        opened, self.work = {}, 0
        for pair in reversed(ring["pairs"][:64]):
            publics = {FOR_NAMES: base64.b64decode(pair["names"]), FOR_CONTENTS: base64.b64decode(pair["contents"])}
            if hashlib.sha256(publics[FOR_NAMES] + publics[FOR_CONTENTS]).hexdigest()[:16] != pair["id"]:
                raise Damage(f"pair {pair['id']} has not the id of its public keys")
            halves = opened.setdefault(pair["id"], {})
            for lock in pair["locks"][:16]:
                if len(halves) == 2:
                    break
                try:
                    for purpose, private in self.open_lock(lock, publics, opened).items():
                        if public_of(private) != publics[purpose]:
                            raise Damage("what it holds is not the pair's")
                        halves[purpose] = private
                except (Damage, KeyError, ValueError) as error:
                    self.report.damage(where, f"lock {lock.get('id')}: {error or 'it does not open'}")
        return opened

    def open_lock(self, lock, publics, opened):
        """The private halves by purpose that a lock gives, none if it is for another secret."""
        kinds = {"passphrase": 1, "key_file": 2, "recovery_code": 3, "recipient": 4}
        scopes = {"all": ((FOR_NAMES, "names"), (FOR_CONTENTS, "contents")), "names": ((FOR_NAMES, "names"),)}
        if lock["kind"] not in kinds or lock["scope"] not in scopes:
            return {}
        context = (b"capstan lock v1" + publics[FOR_NAMES] + publics[FOR_CONTENTS]
                   + bytes([{"all": 1, "names": 2}[lock["scope"]], kinds[lock["kind"]]]))
        halves = {}
        if lock["kind"] == "recipient":
            for purpose, name in scopes[lock["scope"]]:
                private = opened.get(lock[name]["to"], {}).get(purpose)
                if private:
                    halves[purpose] = open_wrap(lock[name], private, context + bytes([purpose]))
            return halves
        root = self.lock_root(lock)
        if root is None or not hmac.compare_digest(hkdf(root, b"capstan lock check v1"),
                                                   base64.b64decode(lock["sealed"]["check"])):
            return {}
        for purpose, name in scopes[lock["scope"]]:
            key = hkdf(root, b"capstan lock seal v1" + bytes([purpose]))
            halves[purpose] = unseal(key, context + bytes([purpose]), base64.b64decode(lock["sealed"][name]))
        return halves

    def lock_root(self, lock):
        """The root that our secret of the lock's kind gives; None without such a secret."""
        salt = base64.b64decode(lock["sealed"]["salt"])
        if lock["kind"] == "key_file":
            return self.key_file and hkdf(self.key_file, b"capstan lock key file v1", salt)
        if lock["kind"] == "recovery_code":
            return self.code and hkdf(self.code, b"capstan lock recovery v1", salt)
        if self.passphrase is None:
            return None
        argon = lock["argon"]
        cost = (argon["m_kib"], argon["t"], argon["p"])
        self.work += cost[0] * cost[1]
        if cost[0] > 256 << 10 or cost[1] > 16 or cost[2] > 8 or self.work > 16 << 20:
            raise Damage("its Argon2 parameters are beyond what is allowed")
        if (salt, cost) not in self.roots:
            self.roots[salt, cost] = argon2id(self.passphrase, salt, *cost)
        return self.roots[salt, cost]


# ---- Batches (format.md: Batches)

@dataclass(slots=True)
class Row:
    """A row, with the place that its data have in the stream."""

    dir: bytes
    name: bytes
    kind: int
    flags: int
    mode: int
    uid: int
    gid: int
    size: int
    mtime_ns: int
    ino: int
    dev: int
    target: bytes = b""
    rdev: tuple = (0, 0)
    inode_flags: int = 0
    xattrs: list = ()
    extents: list = None
    part_offset: int = 0
    outcome: tuple = None
    user: bytes = None
    group: bytes = None
    acl_names: list = None  # names of users and of groups that ACLs name, by number
    start: int = 0  # logical offset at which the data begin
    cut: int = 0  # the stream's logical end in this segment: data beyond lie in later Part rows
    stream: bytes = b""
    order: tuple = ()  # segment, sequence of the batch, row: order within the stream
    segment: object = None
    ahead: bool = False  # its data begin behind that: it comes again where they are, if they came

    @property
    def path(self):
        return self.dir + b"/" + self.name if self.dir else self.name

    @property
    def is_link(self):
        return self.kind < PART and bool(self.flags & 1)

    def logical_length(self):
        if self.kind == PART or (self.kind == REGULAR and not self.is_link and self.extents is None):
            return self.size
        if self.kind != REGULAR or self.is_link:
            return 0
        return sum(length for kind, length, _ in self.extents if kind == 0)


def decode_batch(payload):
    """(data_at, rows) of an opened Batch."""
    cursor = Cursor(payload)
    if cursor.take(1) != b"\x01":
        raise Damage("batch of an unknown version")
    count, data_at = cursor.varint(), cursor.varint()
    if count > 65536:
        raise Damage("too many rows in a batch")
    columns, last = [Cursor(b"") for _ in range(28)], 0
    while cursor.more():
        number, content = cursor.take(1)[0], Cursor(cursor.bytes())
        if number <= last:
            raise Damage("columns of a batch do not ascend")
        last = number
        if number < 28:
            columns[number] = content
    (_, dirs, dir_new, shared, name_len, name_bytes, kinds, flags, modes, uids, gids, sizes, mtimes, mtime_ns, ctimes,
     ctime_ns, inos, devs, targets, rdevs, inode_flags, xattr_sets, xattr_index, extents, part_offsets, outcomes,
     users, groups) = columns
    sets = []
    while xattr_sets.more():
        sets.append([(xattr_sets.bytes(), xattr_sets.bytes()) for _ in range(xattr_sets.varint())])
    owners = [dict(), dict()]
    for names, column in zip(owners, (users, groups)):
        while column.more():
            number = column.varint()
            names[number] = column.bytes()
    rows, dir_, name, uid, gid, mtime, ino, dev, expanded, wrap = [], b"", b"", 0, 0, 0, 0, 0, 0, (1 << 64) - 1
    for _ in range(count):
        if dir_new.varint():
            dir_ = dir_[:prefix(dirs.varint(), dir_)] + dirs.bytes()
        elif not rows:
            raise Damage("the first row of a batch has no directory")
        name = name[:prefix(shared.varint(), name)] + name_bytes.take(name_len.varint())
        uid, gid = uid + uids.zigzag(), gid + gids.zigzag()
        mtime = mtime + mtimes.zigzag() & wrap
        ino, dev = ino + inos.zigzag() & wrap, dev + devs.zigzag() & wrap
        nsec, _, _ = mtime_ns.varint(), ctimes.zigzag(), ctime_ns.varint()
        seconds = mtime - (1 << 64) if mtime >> 63 else mtime
        row = Row(dir_, name, kinds.take(1)[0], flags.varint(), modes.varint(), uid, gid, sizes.varint(),
                  seconds * 10**9 + nsec, ino, dev)
        expanded += len(dir_) + len(name)
        if row.kind > TOMBSTONE or row.flags > 0x7F or row.mode > 0o7777 or nsec >= 10**9 or (uid | gid) >> 32:
            raise Damage("a row of a batch has a value that is not known")
        if row.flags & (4 | 1):
            row.target = targets.bytes() if row.flags & 4 else b""
        if row.flags & 8:
            row.rdev = (rdevs.varint(), rdevs.varint())
        if row.flags & 16:
            row.inode_flags = inode_flags.varint()
        if row.flags & 32:
            index = xattr_index.varint()
            if index >= len(sets):
                raise Damage("a row of a batch has a set of attributes that is not there")
            row.xattrs = sets[index]
            expanded += 16 * len(row.xattrs)
        if row.flags & 64:
            row.extents = [(extents.varint(), extents.varint(), extents.bytes()) for _ in range(extents.varint())]
            if row.kind == REGULAR and sum(length for _, length, _ in row.extents) != row.size:
                raise Damage("extents of a row do not add up to its size")
        if row.kind == PART:
            row.part_offset = part_offsets.varint()
        if row.kind == OUTCOME:
            row.outcome = (outcomes.varint(), outcomes.varint(), outcomes.varint())
            if not 1 <= row.outcome[0] <= 6:
                raise Damage("an outcome of a batch is not known")
        if expanded > 64 * MIB:
            raise Damage("a batch is too large once expanded")
        row.user, row.group = owners[0].get(uid), owners[1].get(gid)
        row.acl_names = owners if any(name in ACLS for name, _ in row.xattrs) else None
        rows.append(row)
    if any(column.more() for column in columns):
        raise Damage("a column of a batch is not used up")
    return data_at, rows


def prefix(count, previous):
    if count > len(previous):
        raise Damage("a row shares more of a name than there is")
    return count


# ---- Where files lie: a directory, or an array of them (format.md: Arrays)

class Directory:
    """A directory that is a medium, or a member of an array."""

    attached = {}  # what they are has files of its own

    def __init__(self, path):
        self.path, self.opened = path.removeprefix("file:"), OrderedDict()

    def names(self):
        return os.listdir(self.path)

    def size(self, name):
        return os.stat(os.path.join(self.path, name)).st_size

    def read(self, name, at, count):
        if name not in self.opened:
            if len(self.opened) >= 64:
                self.opened.popitem(last=False)[1].close()
            self.opened[name] = open(os.path.join(self.path, name), "rb", 0)
        return os.pread(self.opened[name].fileno(), count, at)


class Tape:
    """A tape, read like a directory (format.md: The medium on tape). `files` are what lies between its file marks: of each the
    places (open file, offset, length) of its blocks. The last one is what no file mark ends: it is torn, or empty."""

    def __init__(self, path, files):
        self.path = path
        # File 0 is the medium's header, segment n the files 2n - 1 and 2n.
        self.blocks = {"medium.capstan": files[0][:1]} if files[0] else {}
        self.attached = {}
        for n in range(1, (len(files) - 2) // 2 + 1):
            attachment = Attachment(n, files[2 * n - 1], files[2 * n])
            if attachment.said:
                self.attached[f"attachment {n}"] = attachment
            elif blocks := files[2 * n - 1] + files[2 * n]:
                self.blocks[f"{n:08}.segment"] = blocks

    def names(self):
        return list(self.blocks)

    def size(self, name):
        return sum(length for _, _, length in self.blocks[name])

    def read(self, name, at, count):
        if name not in self.blocks:
            raise FileNotFoundError(errno.ENOENT, "not on the tape", name)
        found = b""
        for file, offset, length in self.blocks[name]:
            if at < length and count > len(found):
                found += os.pread(file.fileno(), min(length - at, count - len(found)), offset + at)
                at = length
            at -= length
        return found


VIRTUAL_TAPE = b"capstan vtape 1\n"


def virtual_tape(path):
    """The file of a virtual tape: 16 bytes of magic, then records: b"B" or b"F" (a file mark), three zeros, the length (u32), so
    many bytes. b"E" is a block that the drive encrypted: it ends what can be read here."""
    file, files, at, end = open(path, "rb"), [[]], len(VIRTUAL_TAPE), os.stat(path).st_size
    while at + 8 <= end:
        kind, length = struct.unpack("<c3xI", os.pread(file.fileno(), 8, at))
        if kind not in (b"B", b"F") or at + 8 + length > end:
            break  # a record that was cut
        files[-1].append((file, at + 8, length)) if kind == b"B" else files.append([])
        at += 8 + length
    return Tape(path, files)


def copied_tape(path):
    """A directory with the files of a tape as dd brings them, "tape.0" and so on: each is its blocks one after the other. What
    some drives give behind the last one is no block of ours."""
    files, end = [], 0
    while os.path.exists(name := os.path.join(path, f"tape.{len(files)}")):
        file, blocks, at, size = open(name, "rb"), [], 0, os.stat(name).st_size
        while at < size:
            try:
                length = min(parse_ma(os.pread(file.fileno(), 64, at)).length, size - at)
                end = len(files) + 1
            except Damage:
                length = size - at
            blocks.append((file, at, length))
            at += length
        files.append(blocks)
    return Tape(path, [*files[:end], []])


class Attachment:
    """What is attached to a tape and is no segment (format.md: Attachments). `said` is None if it is none."""

    def __init__(self, number, first, last):
        self.number, self.contents = number, first[1:]
        self.header = self.record(first[:1], ATTACHMENT, ATTACHMENT_FIELDS | {"medium": dict})
        self.end = self.record(last[:1], ATTACHMENT_END, ATTACHMENT_FIELDS | {"blocks": int, "crc": int})
        self.said = self.header or self.end

    def record(self, blocks, kind, fields):
        try:
            return parse_record(self.block(*blocks[0]), kind, fields)[0] if blocks else None
        except Damage:
            return None

    def block(self, file, offset, length):
        return os.pread(file.fileno(), length, offset)

    def locks(self):
        return [lock for lock in self.said.get("locks", []) if isinstance(lock, dict)]

    def check(self):
        """Reads all of it; returns the bytes of its contents."""
        if not self.header or not self.end:
            raise Damage("one of its records cannot be read")
        for name in [*ATTACHMENT_FIELDS, "locks"]:
            if self.header.get(name) != self.end.get(name):
                raise Damage(f"its two records do not agree: {name}")
        data = b""
        for index, place in enumerate(self.contents, 1):
            block = self.block(*place)
            ma = parse_ma(block)
            if (ma.kind, ma.segment.hex(), ma.index, ma.length) != (ATTACHED, self.said["id"], index, len(block)):
                raise Damage(f"block {index} is not the one that belongs there")
            if crc32c(block[64:]) != struct.unpack_from("<I", block, 48)[0]:
                raise Damage(f"checksum of block {index}")
            data += block[64:]
        length = self.said["length"]
        if not zeros(data[length:]) or len(data) < length or (self.contents and len(data) - length >= len(block) - 64):
            raise Damage("its length")
        if crc32c(data[:length]) != self.end["crc"] or self.end["blocks"] != len(self.contents) + 2:
            raise Damage("checksum or number of blocks")
        if self.said["number"] != self.number:
            raise Damage(f"it says that it is number {self.said['number']}")
        return data[:length]


def open_files(path):
    """The files of a medium: a directory, a virtual tape, or what was copied from a tape."""
    path = path.removeprefix("file:")
    if os.path.isfile(path):
        with open(path, "rb") as file:
            if file.read(16) == VIRTUAL_TAPE:
                return virtual_tape(path)
    return copied_tape(path) if os.path.isfile(os.path.join(path, "tape.0")) else Directory(path)


def gf_multiply(a, b):
    product = 0
    while b:
        product ^= a if b & 1 else 0
        a, b = a << 1 ^ (0x11d if a & 0x80 else 0), b >> 1
    return product


def gf_inverse(a):
    return next(b for b in range(1, 256) if gf_multiply(a, b) == 1)


def gf_times(factor, data):
    """All bytes times a factor."""
    return data if factor == 1 else data.translate(bytes(gf_multiply(factor, b) for b in range(256)))


def xor(a, b):
    """The bytes added, the shorter one as if zeros followed."""
    size = max(len(a), len(b))
    return (int.from_bytes(a, "little") ^ int.from_bytes(b, "little")).to_bytes(size, "little")


def gf_solve(rows, values):
    """Solves a system of equations whose right sides are byte strings."""
    rows, values = [list(row) for row in rows], list(values)
    for column in range(len(rows)):
        pivot = next(r for r in range(column, len(rows)) if rows[r][column])
        rows[column], rows[pivot] = rows[pivot], rows[column]
        values[column], values[pivot] = values[pivot], values[column]
        scale = gf_inverse(rows[column][column])
        rows[column] = [gf_multiply(scale, v) for v in rows[column]]
        values[column] = gf_times(scale, values[column])
        for r, row in enumerate(rows):
            if r != column and row[column]:
                share = row[column]
                values[r] = xor(values[r], gf_times(share, values[column]))
                rows[r] = [v ^ gf_multiply(share, w) for v, w in zip(row, rows[column])]
    return values


def shape(layout, members):
    """Numbers of data and parity blocks in a stripe."""
    plain = {"rait0": (members, 0), "rait1": (1, members - 1), "rait5": (members - 1, 1)}
    if match := re.fullmatch(r"rait:([1-9]\d*)\+([1-9]\d*)", layout):
        plain[layout] = int(match[1]), int(match[2])
    n, k = plain.get(layout, (0, 0))
    if n < 1 or n + k != members or not 2 <= members <= 256:
        raise Damage(f"layout {layout} of {members} members")
    return n, k


class ArraySegment:
    """Where the blocks of a segment lie on an array: laid out one after the other, as they were written."""

    def __init__(self, array, name, first, lengths, end):
        """`lengths` are those of the data blocks, `first` that of block 0; `end` the end record's id, or None."""
        self.array, self.name, self.segment = array, name, end
        n, members = array.n, array.n + array.k
        self.data, self.first, self.tails, at = [], first, [], first
        self.offsets = [first] * members
        self.lengths = [[] for _ in range(members)]  # of each member's blocks that are there
        self.roles = {}  # (stripe, role): (member, offset, length)
        for stripe in range(-(-len(lengths) // n)):
            here = lengths[stripe * n:(stripe + 1) * n]
            for role in range(members):
                length = max(here) if role >= n else here[role] if role < len(here) else 0
                member = (stripe + role) % members
                self.roles[stripe, role] = member, self.offsets[member], length
                if role < len(here):
                    self.data.append((at, length, stripe, role))
                    at += length
                if length:
                    self.offsets[member] += length
                    self.lengths[member].append(length)
        self.catalog_at = at
        for number, (header, files) in array.members.items():
            if isinstance(files, Array):
                files.segments[name] = ArraySegment(files, name, first, self.lengths[number], end)
        tails = [files.size(name) - self.offsets[number] for number, files in array.having(name)]
        self.tail = max(tails, key=tails.count)
        self.size = at + self.tail

    def good(self, member, stripe, role, block, length):
        """Whether a block is the one that belongs there."""
        try:
            ma = parse_ma(block)
        except Damage:
            return False
        if len(block) != length or ma.length != length or (self.segment and ma.segment != self.segment):
            return False
        if not isinstance(self.array.members[member][1], Array):
            is_copy = self.array.layout == "rait1"
            expected = (3, member, 0) if role is None else (
                (1 if role < self.array.n or is_copy else 2), 0 if is_copy else member, stripe)
            if (block[32], block[33], struct.unpack_from("<Q", block, 40)[0]) != expected:
                return False
        return crc32c(block[64:]) == struct.unpack_from("<I", block, 48)[0]

    def block_of(self, stripe, role):
        """The block of a role as a member has it, None if none has it whole."""
        member, offset, length = self.roles[stripe, role]
        if not length:
            return b""
        places = range(self.array.n + self.array.k) if self.array.layout == "rait1" else [member]
        for place in places:
            if place in self.array.members:
                block = self.array.read_member(place, self.name, offset, length)
                if self.good(place, stripe, role, block, length):
                    return block
                if self.array.report:
                    self.array.report.note(f"{self.name} member {place} stripe {stripe}", "its block is missing or damaged there")
        return None

    def data_block(self, index):
        """A data block, computed from the others of its stripe where it is not there."""
        _, length, stripe, role = self.data[index - 1]
        block = self.block_of(stripe, role)
        if block is None and self.array.layout != "rait1":
            block = self.computed(stripe, role, length)
        if block is None:
            return bytes(length)
        header = bytearray(b"CpMA" + bytes(60))
        struct.pack_into("<BBH16sII", header, 4, 1, DATA, 0, parse_ma(block[:64]).segment if block[:4] == b"CpMA"
                         else self.segment or bytes(16), index, length)
        struct.pack_into("<I", header, 48, crc32c(block[64:]))
        header[32], header[33] = block[32], block[33]
        header[40:48] = block[40:48]
        if not self.array.place:  # the index is that of the outermost array
            struct.pack_into("<I", header, 60, crc32c(bytes(header[:60])))
            return bytes(header) + block[64:]
        return block if block[:4] == b"CpMA" else bytes(64) + block[64:]

    def computed(self, stripe, role, length):
        n, k = self.array.n, self.array.k
        blocks = {r: b for r in range(n + k) if r != role and (b := self.block_of(stripe, r)) is not None}
        lost = [j for j in range(n) if j not in blocks]
        parity = [i for i in range(k) if n + i in blocks][:len(lost)]
        if len(parity) < len(lost):
            return None

        def factor(i, j):
            return 1 if self.array.layout == "rait5" else gf_inverse(i ^ (k + j))
        values = []
        for i in parity:
            value = blocks[n + i][64:]
            for j in range(n):
                if j in blocks:
                    value = xor(value, gf_times(factor(i, j), blocks[j][64:]))
            values.append(value)
        solved = dict(zip(lost, gf_solve([[factor(i, j) for j in lost] for i in parity], values)))
        if role < n:
            content = solved[role]
        else:
            content = b""
            for j in range(n):
                content = xor(content, gf_times(factor(role - n, j), solved.get(j, blocks.get(j, b"")[64:])))
        content = (content + bytes(length))[:length - 64]
        ma = bytearray(64)
        struct.pack_into("<4sBBH16sII", ma, 0, b"CpMA", 1, DATA, 0, self.segment or bytes(16), 0, length)
        ma[32], ma[33] = (1 if role < n else 2), self.roles[stripe, role][0]
        struct.pack_into("<Q", ma, 40, stripe)
        struct.pack_into("<I", ma, 48, crc32c(content))
        struct.pack_into("<I", ma, 60, crc32c(bytes(ma[:60])))
        return bytes(ma) + content

    def common(self, at, behind, count):
        """Bytes that all members have: of block 0, or behind the data. Block by block from the first that has it whole."""
        out = b""
        for member, files in self.array.having(self.name):
            base = self.offsets[member] if behind else 0
            block = self.array.read_member(member, self.name, base + at, count)
            out = out or block
            if self.good(member, 0, None, block, count):
                return block
        return out

    def tail_blocks(self):
        """(offset behind the data, length) of the catalog's blocks and the end record."""
        if self.tails:
            return self.tails
        at, blocks = 0, []
        while at < self.tail:
            length = min(self.array.header["block_size"], self.tail - at)
            for member, _ in self.array.having(self.name):
                try:
                    length = parse_ma(self.array.read_member(member, self.name, self.offsets[member] + at, 64)).length
                    break
                except Damage:
                    pass
            blocks.append((at, length))
            at += length
        self.tails = blocks
        return blocks

    def read(self, at, count):
        out = b""
        while count > 0 and at < self.size:
            if at < self.first:
                begin, block = 0, self.array.kept(self.name, 0, lambda: self.common(0, False, self.first))
            elif at < self.catalog_at:
                index = bisect_right(self.data, at, key=lambda place: place[0])
                begin = self.data[index - 1][0]
                block = self.array.kept(self.name, begin, lambda: self.data_block(index))
            else:
                offset, length = next((o, n) for o, n in reversed(self.tail_blocks()) if o <= at - self.catalog_at)
                begin = self.catalog_at + offset
                block = self.array.kept(self.name, begin, lambda: self.common(offset, True, length))
            piece = block[at - begin:at - begin + count]
            if not piece:
                break
            out, at, count = out + piece, at + len(piece), count - len(piece)
        return out


class Array:
    """Members of an array, read as one directory."""

    def __init__(self, members):
        """`members`: (header, files) of each by its number."""
        self.members, header = members, next(iter(members.values()))[0]
        place = header["array"]
        self.layout, total = place["layout"], place["members"]
        self.n, self.k = shape(self.layout, total)
        self.place = place.get("of")
        self.header = {key: value for key, value in header.items() if key != "array"} | {"medium": place["array"]}
        if self.place:
            self.header["array"] = self.place
        self.path = ",".join(files.path for _, files in members.values())
        self.attached = {}  # whole on each member
        for _, files in members.values():
            self.attached = files.attached | self.attached
        self.segments, self.cache, self.report = {}, OrderedDict(), None

    def having(self, name):
        return [(number, files) for number, (_, files) in self.members.items() if name in files.names()]

    def read_member(self, member, name, at, count):
        try:
            return self.members[member][1].read(name, at, count)
        except OSError:
            return b""

    def kept(self, name, at, load):
        """One of the blocks read last."""
        if (name, at) not in self.cache:
            self.cache[name, at] = load()
            if len(self.cache) > 32:
                self.cache.popitem(last=False)
        return self.cache[name, at]

    def names(self):
        names = [name for _, files in self.members.values() for name in files.names()]
        enough = min(self.n, len(self.members))
        return [n for n in sorted(set(names)) if names.count(n) >= enough or not n.endswith(".segment")]

    def segment(self, name):
        if name not in self.segments:
            self.segments[name] = self.open_segment(name)
        return self.segments[name]

    def open_segment(self, name):
        """By the first sound end record; of the outermost array, which lays out those in it."""
        for files in leaves(self):
            try:
                size = files.size(name)
            except OSError:
                continue
            for at in range(size - STEP, max(size - MAX_BLOCK, 0) - 1, -STEP):
                try:
                    ma = parse_ma(files.read(name, at, 64))
                    if ma.kind == SEGMENT_END and at + ma.length == size:
                        end, _ = parse_record(files.read(name, at, ma.length), SEGMENT_END, END_FIELDS)
                        short = dict(end["short_blocks"])
                        size = self.header["block_size"]
                        lengths = [short.get(i, size) for i in range(1, end["data_blocks"] + 1)]
                        return ArraySegment(self, name, short.get(0, size), lengths, ma.segment)
                except (Damage, TypeError, ValueError):
                    pass
        raise Failure(f"{name}: no member has its end record whole")

    def size(self, name):
        return self.segment(name).size if name.endswith(".segment") else min(
            files.size(name) for _, files in self.having(name))

    def read(self, name, at, count):
        if name.endswith(".segment"):
            return self.segment(name).read(at, count)
        return next((files.read(name, at, count) for _, files in self.having(name)), b"")


def arrays_in(files):
    """An array, and the arrays in it."""
    if not isinstance(files, Array):
        return []
    return [files, *(array for _, inner in files.members.values() for array in arrays_in(inner))]


def leaves(files):
    """The directories of an array, and of the arrays in it."""
    if not isinstance(files, Array):
        return [files]
    return [leaf for _, inner in files.members.values() for leaf in leaves(inner)]


def assemble(paths, members, further):
    """The media that were given: of each its files, or the array that directories make, and its header where it is known already."""
    if not members and not further:
        return [(open_files(path), None) for path in paths]
    found, alone = [], []
    for path in [*paths, *members, *further]:
        files = open_files(path)
        try:
            header = check_medium_header(parse_record(files.read("medium.capstan", 0, MAX_BLOCK), MEDIUM_HEADER, MEDIUM_FIELDS)[0])
            found.append((header, files))
        except (OSError, Damage) as problem:
            if path in further or not members:
                alone.append((files, None))  # its segments tell what it is
            else:
                print(f"note: {path} is left out: {problem}", file=sys.stderr)
    while any(header.get("array") for header, _ in found):
        # The innermost arrays first: those whose place has the most others around it.
        def depth(header):
            place, deep = header.get("array"), 0
            while place:
                place, deep = place.get("of"), deep + 1
            return deep
        deepest = max(depth(header) for header, _ in found)
        groups, rest = {}, []
        for header, files in found:
            if depth(header) == deepest:
                parse_json(json.dumps(header["array"]).encode(), PLACE_FIELDS)
                groups.setdefault(header["array"]["array"], {}).setdefault(header["array"]["member"], (header, files))
            else:
                rest.append((header, files))
        arrays = [Array(dict(sorted(members.items()))) for members in groups.values()]
        # One in another that lacks too many members is lost itself, unless it is all there is: then it can be listed.
        whole = [array for array in arrays if len(array.members) >= array.n or not array.place]
        whole = whole if len(arrays) + len(rest) > 1 else arrays
        found = rest + [(array.header, array) for array in whole]
    if len(found) != 1 and not further:
        raise Failure("the directories are not members of one array")
    return [(files, header) for header, files in found] + alone


# ---- Reading a segment's blocks (format.md: Blocks, The medium on a file device, Damage)

@dataclass
class Block:
    """A block as it was met; `kind` is None if its media agent's header is bad, `da` if the disk agent's is."""

    index: int
    offset: int
    data: bytes
    kind: int
    da: DA = None
    whole: bool = True


class Segment:
    """A segment file: its records, and its blocks with or without damage. `name` is unique among the media that were given."""

    def __init__(self, volume, file, block_size, several):
        self.volume, self.file, self.block_size = volume, file, block_size
        self.name = f"{volume.path}: {file}" if several else file
        self.size = volume.files.size(file)
        self.rank, self.twins = 0, []  # its place among all segments; others with the same frames: copies and mirrors
        self.header = self.end = self.end_at = self.id = self.content = self.summary = None
        self.short, self.problems = {}, []  # short: lengths of the blocks that have not the block size
        try:
            header, ma = parse_record(self.read(0, parse_ma(self.read(0, 64)).length), SEGMENT_HEADER, HEADER_FIELDS)
            check_medium_header(parse_json(json.dumps(header["medium"]).encode(), MEDIUM_FIELDS))
            self.id = ma.segment
            self.take_header(header)
        except Damage as problem:
            self.problems.append(("block 0 (segment header)", str(problem)))
        self.find_end()
        if self.id is None:
            self.id = self.any_id()

    def take_header(self, header):
        self.header, self.block_size = header, header["medium"]["block_size"]

    def read(self, at, count):
        return self.volume.files.read(self.file, at, count)

    def find_end(self):
        """Looks for the end record, from the end of the file backwards."""
        for at in range(self.size - STEP, max(self.size - MAX_BLOCK, 0) - 1, -STEP) if self.size % STEP == 0 else ():
            head = self.read(at, 64)
            if head[:4] != b"CpMA":
                continue
            try:
                ma = parse_ma(head)
                if ma.kind != SEGMENT_END or at + ma.length != self.size or self.id not in (None, ma.segment):
                    continue
                end, _ = parse_record(self.read(at, ma.length), SEGMENT_END, END_FIELDS)
                if end["segment"].lower() != ma.segment.hex() or ma.index != end["blocks"] - 1:
                    raise Damage("the record is not of its block")
                for extent in end["streams"]:
                    if not all(isinstance(extent[name], int) for name in EXTENT_FIELDS) or len(bytes.fromhex(extent["stream"])) != 16:
                        raise Damage("a stream extent")
                short = {i: n for i, n in end["short_blocks"]}
                if not all(isinstance(n, int) and n > -1 for n in [*short, *short.values()]):
                    raise Damage("the list of short blocks")
                self.end, self.end_at, self.id, self.short = end, at, ma.segment, short
            except (Damage, KeyError, TypeError, ValueError) as problem:
                self.problems.append(("segment end", str(problem)))
            break
        if self.end is None:
            self.problems.append(("segment end", "no sound end record is there; the segment is read as far as it goes"))

    def any_id(self):
        """The segment's id from any sound block, when both records are damaged."""
        for at in range(0, self.size, STEP):
            head = self.read(at, 64)
            if head[:4] == b"CpMA":
                try:
                    return parse_ma(head).segment
                except Damage:
                    pass
        return bytes(16)

    def identity(self):
        """What copies and mirrors of a segment have in common."""
        original = (self.header or {}).get("copy_of")
        return original.lower() if isinstance(original, str) else self.id.hex() if any(self.id) else self.name

    def extents(self):
        """The end record's stream extents by stream id."""
        end = self.end or self.summary
        return {bytes.fromhex(extent["stream"]): extent for extent in end["streams"]} if end else {}

    def offset_of(self, index):
        """Where a data block begins, by the end record."""
        if index == 0:
            return 0
        first = self.short.get(0, self.block_size)
        return first + (index - 1) * self.block_size + sum(
            length - self.block_size for i, length in self.short.items() if 0 < i < index)

    def blocks(self, report, at=0, index=0, stop=None):
        """The blocks from byte `at` on, whose first should have this index. Damage costs what it touches."""
        stop, beyond = self.size if stop is None else stop, None
        while at < stop:
            try:
                ma = parse_ma(self.read(at, 64))
                if ma.segment != self.id or ma.index < index:
                    raise Damage("block of another segment or place")
                kind, length = ma.kind, ma.length
                if ma.index > index:
                    report.damage(f"{self.name} blocks {index} to {ma.index - 1}", "they are missing")
                index = ma.index
            except Damage as problem:
                report.damage(f"{self.name} block {index}", str(problem))
                if beyond is None or beyond[0] <= at:
                    beyond = self.next_block(at + STEP, index, stop)
                kind, length = None, beyond[0] - at
                if beyond[1] != index + 1 or length > MAX_BLOCK:
                    length = min(length, self.short.get(index, self.block_size))
            data = self.read(at, length)
            block = Block(index, at, data, kind, whole=len(data) == length)
            if not block.whole:
                report.damage(f"{self.name} block {index}", "the file ends within it")
            if kind in (DATA, CATALOG) or (kind is None and index):
                try:
                    block.da = parse_da(data, length)
                    if not zeros(data[128 + block.da.used:]):
                        report.damage(f"{self.name} block {index}", "bytes after its payload that are not zero")
                except Damage as problem:
                    report.damage(f"{self.name} block {index}", str(problem))
            yield block
            at, index = at + length, index + 1

    def next_block(self, at, index, stop):
        """(offset, index) of the next sound block of a greater index; (stop, None) if there is none."""
        while at < stop:
            head = self.read(at, 64)
            if head[:4] == b"CpMA":
                try:
                    ma = parse_ma(head)
                    if ma.segment == self.id and ma.index > index:
                        return at, ma.index
                except Damage:
                    pass
            at += STEP
        return stop, None


class Joiner:
    """Joins the payloads of a stream's blocks and cuts them into frames, going on after damage."""

    def __init__(self, segment, stream, report, expected):
        self.segment, self.stream, self.report = segment, stream, report
        self.position, self.sequence, self.logical = expected  # of what comes next, None if not known
        self.pending, self.skip, self.lost, self.last_block = None, False, [], 0
        self.sparse, self.hurt = False, False  # frames may be left out between others; something was lost since the last

    def damage(self, block, what):
        self.hurt = True
        self.report.damage(f"{self.segment.name} block {block}, stream {self.stream.hex()[:8]}", what)

    def lose(self, start, end):
        if start is not None and end > start:
            self.lost.append((start, end))

    def drop(self, why):
        if self.pending:
            frame, _, _, block, _ = self.pending
            self.damage(block, f"frame {frame.sequence} is cut off: {why}")
            if is_logical(frame):
                self.lose(frame.logical, frame.logical + frame.length)
            self.pending = None

    def feed(self, block):
        """Takes the stream's next block and yields the frames that end in it."""
        da, at, end = block.da, 0, min(block.da.used, max(len(block.data) - 128, 0))
        self.last_block = block.index
        if self.position not in (None, da.position):
            self.damage(block.index, f"blocks are missing before it: position {da.position} where {self.position} belongs")
            self.drop("its rest is missing")
            self.skip = True
        self.position = da.position + da.used
        if self.pending:
            frame, chunks, missing, start, byte = self.pending
            at = min(missing, end)
            chunks.append((block.offset + 128, block.data[128:128 + at]))
            self.pending = (frame, chunks, missing - at, start, byte)
            if missing > at:
                if da.first not in (NO_FRAME, UNKNOWN):
                    self.damage(block.index, "a frame begins in it where another is not at its end")
                    self.drop("another begins")
                    at = da.first
                else:
                    return
            else:
                yield self.finish()
        if self.skip:
            at = da.first
            if at == NO_FRAME:
                return
            self.skip = False
            if at == UNKNOWN:
                at = self.resynchronise(block, 0, end)
        elif da.first not in (UNKNOWN, at if at < end else NO_FRAME):
            self.damage(block.index, f"first frame at {da.first} where {at} belongs")
        while at is not None and at < end:
            if da.first == UNKNOWN and zeros(block.data[128 + at:]):
                return
            try:
                frame = parse_frame(block.data[128 + at:128 + min(at + 48, end)], self.stream)
            except Damage as problem:
                self.damage(block.index, f"byte {at} of the payload: {problem}")
                at = self.resynchronise(block, at + 8, end)
                continue
            length = frame.stored + -frame.stored % 8
            begin, take = at + 48, min(length, end - at - 48)
            if self.accept(frame, block.index):
                chunks = [(block.offset + 128 + begin, block.data[128 + begin:128 + begin + take])]
                self.pending = (frame, chunks, length - take, block.index, at)
                if length == take:
                    yield self.finish()
            at = begin + take
        self.skip = self.skip or at is None

    def resynchronise(self, block, at, end):
        """The next place in the payload at which a frame of this stream begins; None if there is none."""
        while (at := block.data.find(b"CpFr", 128 + at, 128 + end) - 128) >= 0:
            if at % 8 == 0:
                try:
                    if parse_frame(block.data[128 + at:176 + at], self.stream).sequence >= (self.sequence or 0):
                        return at
                except Damage:
                    pass
            at += 4
        return None

    def accept(self, frame, block):
        """Compares a frame's sequence and offset with those that should come; False if it is to be left out."""
        leaps = self.sparse and not self.hurt and frame.logical >= (self.logical or 0)
        self.hurt = False
        if self.sequence is not None and not (leaps and frame.sequence >= self.sequence):
            if frame.sequence < self.sequence:
                self.damage(block, f"frame {frame.sequence} where {self.sequence} belongs")
                return False
            if frame.sequence > self.sequence:
                self.damage(block, f"frames {self.sequence} to {frame.sequence - 1} are missing, "
                                   f"logical offsets {self.logical} to {frame.logical}")
            elif frame.logical != self.logical:
                self.damage(block, f"logical offset {frame.logical} where {self.logical} belongs")
            self.lose(self.logical, frame.logical)
        self.sequence = frame.sequence + 1
        self.logical = frame.logical + (frame.length if is_logical(frame) else 0)
        return True

    def finish(self):
        frame, chunks, _, block, byte = self.pending
        self.pending = None
        joined = b"".join(chunk for _, chunk in chunks)
        payload, padding = joined[:frame.stored], joined[frame.stored:]
        pieces, left = [], frame.stored
        for offset, chunk in chunks:
            if min(left, len(chunk)):
                pieces.append((offset, min(left, len(chunk))))
            left -= min(left, len(chunk))
        if not zeros(padding):
            self.damage(block, f"frame {frame.sequence}: padding that is not zero")
        try:
            check_payload(self.stream, frame, payload)
        except Damage as problem:
            self.damage(block, f"frame {frame.sequence}: {problem}")
            if is_logical(frame):
                self.lose(frame.logical, frame.logical + frame.length)
            payload = None
        return Found(self.stream, frame, payload, block, byte, pieces)


class Scan:
    """Reads blocks in order and yields the sound frames of all streams; the catalog is the stream with the
    segment's id. `carried` says what earlier segments lead to expect: stream -> (position, sequence, logical)."""

    def __init__(self, segment, report, carried=None):
        self.segment, self.report, self.carried = segment, report, carried or {}
        self.joiners, self.orphans, self.lengths, self.kinds = {}, [], {}, {}

    def joiner(self, stream):
        if stream not in self.joiners:
            extent = self.segment.extents().get(stream)
            expected = (None, None, None)
            if stream == self.segment.id:
                expected = (0, 0, 0)
            elif stream in self.carried and not (extent and (self.carried[stream][1] or 0) < extent["first_sequence"]):
                expected = self.carried[stream]  # what lies between and was not given, the session says
            elif extent:
                expected = (None if extent["first_sequence"] else 0, extent["first_sequence"], extent["logical_start"])
            sparse = bool(extent and extent.get("sparse"))
            self.joiners[stream] = Joiner(self.segment, stream, self.report, (None,) * 3 if sparse else expected)
            self.joiners[stream].sparse = sparse
        return self.joiners[stream]

    def frames(self, at=0, index=0, stop=None):
        for block in self.segment.blocks(self.report, at, index, stop):
            self.lengths[block.index], self.kinds[block.index] = len(block.data), block.kind
            if block.kind in (SEGMENT_HEADER, SEGMENT_END, MEDIUM_HEADER) or block.index == 0:
                continue
            if block.da is None:
                self.orphans = (self.orphans + [block])[-16:]
                continue
            if block.kind and (block.kind == CATALOG) != (block.da.stream == self.segment.id):
                self.report.damage(f"{self.segment.name} block {block.index}", "its kind does not agree with its stream")
            joiner = self.joiner(block.da.stream)
            if joiner.position is None:
                yield from self.adopt_first(joiner, block.da.position)
            elif block.da.position > joiner.position:
                yield from self.adopt(joiner, block.da.position - joiner.position)
            yield from joiner.feed(block)
        for block in list(self.orphans):
            yield from self.place(block)
        for joiner in self.joiners.values():
            joiner.drop("the segment ends")
            extent = self.segment.extents().get(joiner.stream)
            if extent and joiner.logical is not None:
                joiner.lose(joiner.logical, extent["logical_end"])

    def adopt(self, joiner, gap):
        """If one block without a disk agent's header fits into a stream's gap, takes it as the stream's."""
        fitting = [block for block in self.orphans if block.index > joiner.last_block
                   and gap <= len(block.data) - 128 and zeros(block.data[128 + gap:])]
        if len(fitting) == 1:
            self.orphans.remove(fitting[0])
            fitting[0].da = DA(joiner.stream, joiner.position, gap, UNKNOWN)
            yield from joiner.feed(fitting[0])

    def adopt_first(self, joiner, position):
        """Takes a block without a disk agent's header as the stream's first of the segment if its label is there."""
        for block in self.orphans:
            if joiner.resynchronise(block, 0, len(block.data) - 128) == 0:
                self.orphans.remove(block)
                block.da = DA(joiner.stream, position, len(block.data) - 128, UNKNOWN)
                yield from joiner.feed(block)
                joiner.position = position
                return

    def place(self, block):
        """Finds the stream of a block without a disk agent's header at the end of its stream's part."""
        for stream in self.segment.extents().keys() | {self.segment.id}:
            self.joiner(stream)
        able = [joiner for joiner in self.joiners.values() if joiner.last_block < block.index]
        used = len(block.data) - 128
        for joiner in ([joiner for joiner in able if joiner.resynchronise(block, 0, used) is not None]
                       or [joiner for joiner in able if joiner.pending])[:1]:
            block.da = DA(joiner.stream, joiner.position or 0, used, UNKNOWN)
            joiner.skip = joiner.skip or not joiner.pending
            yield from joiner.feed(block)

    def lost(self):
        """Lost ranges of logical offsets by stream."""
        lost = {stream: joiner.lost for stream, joiner in self.joiners.items() if joiner.lost}
        for stream, extent in self.segment.extents().items():
            if stream not in self.joiners and extent["logical_end"] > extent["logical_start"]:
                lost[stream] = [(extent["logical_start"], extent["logical_end"])]
        return lost


# ---- What a segment holds, from its catalog or its streams (format.md: Catalogs)

@dataclass
class StreamPart:
    """A stream's part of a segment."""

    label: dict = None
    names: tuple = None  # frame and stored payload
    batches: dict = field(default_factory=dict)  # sequence -> frame and stored payload
    places: list = field(default_factory=list)  # (logical, sequence, block, byte) of Data and Fill frames
    pieces: dict = field(default_factory=dict)  # sequence -> frame and pieces of the file; only after a scan
    end: int = None
    fills: list = field(default_factory=list)


class Content:
    """The metadata of a segment."""

    def __init__(self):
        self.parts, self.header, self.summary, self.copies, self.index = {}, None, None, [], {}
        self.scanned = False  # whether places come from the streams, not from the index

    def part(self, stream):
        return self.parts.setdefault(stream, StreamPart())

    def add_frame(self, found, keep_places=True):
        """Takes a frame of a data stream."""
        part, frame = self.part(found.stream), found.frame
        if is_logical(frame):
            part.end = max(part.end or 0, frame.logical + frame.length)
            if keep_places:
                part.places.append((frame.logical, frame.sequence, found.block, found.byte))
                part.pieces[frame.sequence] = (frame, found.pieces)
        elif found.payload is not None:
            if frame.type == BATCH:
                part.batches.setdefault(frame.sequence, (frame, found.payload))
            elif frame.type == NAMES:
                part.names = (frame, found.payload)
            elif frame.type == LABEL:
                part.label = parse_json(decompress(frame.codec, found.payload, frame.length), LABEL_FIELDS)

    def add_catalog(self, found):
        """Takes a frame of the catalog."""
        frame = found.frame
        if found.payload is None or frame.type not in (HEADER, COPY, INDEX, SUMMARY):
            return
        payload = decompress(frame.codec, found.payload, frame.length)
        if frame.flags & 1:
            raise Damage("a frame of the catalog is sealed")
        if frame.type == HEADER:
            self.header = parse_json(payload, HEADER_FIELDS)
        elif frame.type == SUMMARY:
            self.summary = parse_json(payload, END_FIELDS)
        elif frame.type == COPY:
            stream, copy, stored = payload[:16], parse_frame(payload[16:64], payload[:16]), payload[64:]
            if len(stored) != copy.stored or copy.type not in (LABEL, NAMES, BATCH, SUMS):
                raise Damage("length or type of a copy")
            check_payload(stream, copy, stored)
            self.copies.append((stream, copy.raw))
            self.add_frame(Found(stream, copy, stored, None, None, None))
        else:
            cursor = Cursor(payload)
            stream, sequence, logical, block = cursor.take(16), 0, 0, 0
            entries = self.index.setdefault(stream, [])
            for _ in range(cursor.varint()):
                data = cursor.varint()
                sequence, logical = sequence + cursor.varint(), logical + cursor.varint()
                block, byte = block + cursor.varint(), cursor.varint()
                entries.append((sequence, data, logical, block, byte))
            if cursor.more():
                raise Damage("bytes after an index")

    def finish(self, segment):
        """Sets each stream's end, and its places from the index if they were not found by a scan."""
        segment.summary = segment.summary or self.summary  # it says what a lost end record said
        extents = segment.extents()
        for stream in self.parts.keys() | extents.keys():
            part = self.part(stream)
            found = {sequence for _, sequence, _, _ in part.places} if self.scanned else ()
            if not self.scanned:
                part.places = []
            # What a scan does not find may be where the index says, in a block whose headers are damaged.
            part.places += [(logical, sequence, block, byte)
                            for sequence, data, logical, block, byte in self.index.get(stream, ()) if data and sequence not in found]
            part.places.sort()
            if stream in extents:
                part.end = extents[stream]["logical_end"]
            part.end = part.end or 0
        segment.content = self
        if self.header and not segment.header:
            segment.take_header(self.header)
        return self

    def label(self, stream, segment):
        return self.part(stream).label or (segment.header or {}).get("session")

    def rows(self, segment, keys, report):
        """The rows that count (format.md: Which rows count), stream by stream, in order."""
        for stream in sorted(self.parts):
            part, label = self.parts[stream], self.label(stream, segment)
            for sequence in sorted(part.batches):
                frame, stored = part.batches[sequence]
                try:
                    payload = open_payload(stream, frame, stored, keys, label)
                    if payload is None:
                        continue
                    data_at, rows = decode_batch(payload)
                except Damage as problem:
                    report.damage(f"{segment.name} stream {stream.hex()[:8]} batch {sequence}", str(problem))
                    continue
                start = frame.logical + data_at
                for number, row in enumerate(rows):
                    length = row.logical_length()
                    row.start, row.cut, row.stream, row.segment = start, part.end, stream, segment
                    row.order = (segment.rank, sequence, number)
                    start += length
                    row.ahead = length > 0 and row.start >= part.end
                    yield row


def load(segment, report):
    """The segment's content from the catalog, or, if that is damaged, from all of its blocks."""
    if segment.content is None:
        quiet, content = Report(), Content()
        if segment.end:
            try:
                first = segment.end["data_blocks"] + 1
                for found in Scan(segment, quiet).frames(segment.end["catalog_at"], first, segment.end_at):
                    content.add_catalog(found)
            except Damage:
                quiet.count += 1
            if not quiet.count and content.summary and content.header:
                return content.finish(segment)
        report.damage(segment.name, "its catalog is damaged or missing; its streams are read instead")
        load_by_scan(segment)
    return segment.content


def load_by_scan(segment):
    """The content from the streams' frames, and from what is left of the catalog. `check` names the damage."""
    content, report = Content(), Report()
    content.scanned = True
    for found in Scan(segment, report).frames():
        try:
            content.add_catalog(found) if found.stream == segment.id else content.add_frame(found)
        except Damage as problem:
            report.damage(segment.name, str(problem))
    return content.finish(segment)


# ---- Sessions, versions and files (format.md: From rows to files, Sessions and versions)

@dataclass(slots=True)
class Entry:
    """A path's row with what belongs to it. `wanted` is False if it is only there for links to it."""

    row: Row
    parts: list
    outcomes: list
    session: str
    wanted: bool = True
    known_as: bytes = None  # the path that it has in earlier versions, where that is another

    def notes(self):
        return [OUTCOMES[code] for code, _, _ in self.outcomes]


@dataclass
class Session:
    """A session, with its segments in order."""

    id: str
    label: dict
    segments: list = field(default_factory=list)
    end: dict = None
    lacks: list = None  # what of it is on media that were not given, once that was looked for

    def state(self):
        return self.end.get("status", "failed") if self.end else "incomplete"


UNFINISHED = "incomplete: the session ended before the file did, so that there is no row for it"


class Tree:
    """The files of a session, or of a version."""

    def __init__(self):
        self.files, self.hidden, self.gone, self.problems = {}, {}, set(), []
        self.unfinished = set()  # paths whose row the session did not come to write


class Volume:
    """A medium that was given: its header and segments."""

    def __init__(self, files, header, report, torn, several):
        self.files, self.header, self.report, self.header_problem = files, header, report, None
        self.path, self.attached, self.segments = files.path, getattr(files, "attached", {}), []
        self.is_tape = all(isinstance(leaf, Tape) for leaf in leaves(files))
        for array in arrays_in(files):
            array.report = report
        if not header:
            try:
                head = files.read("medium.capstan", 0, MAX_BLOCK)
                self.header = check_medium_header(parse_record(head, MEDIUM_HEADER, MEDIUM_FIELDS)[0])
            except (OSError, Damage) as problem:
                self.header_problem = str(problem)
            if self.header and self.header.get("array"):
                raise Failure("{path} is member {member} (from 0) of an array {layout} of {members}; name the others with "
                              "--member".format(path=self.path, **self.header["array"]))
        try:
            names = files.names()
        except OSError as error:
            raise Failure(f"the medium cannot be opened: {error}") from None
        names = [n for n in names if re.fullmatch(r"\d{8,}\.segment" + (r"(\.part)?" if torn else ""), n)]
        for name in sorted(names, key=lambda n: (int(n.split(".")[0]), n)):
            self.segments.append(Segment(self, name, self.header["block_size"] if self.header else 262144, several))
        if not self.header and not self.segments:
            raise Failure(f"{self.path} is no medium: neither medium.capstan nor a segment can be read")
        for segment in self.segments:
            if segment.header:
                self.header = self.header or segment.header["medium"]

    def ids(self):
        """The medium's id, and what its segments call it."""
        headers = [self.header, *(segment.header["medium"] for segment in self.segments if segment.header)]
        return {str(header["medium"]).lower() for header in headers if header}

    def locks(self):
        """Until when each locked version is locked, as text (format.md: Locks)."""
        locks = {}
        for name in sorted(self.files.names()):
            if not (match := re.fullmatch(r"([0-9a-f]{32})\.lock", name)):
                continue
            try:
                lock = parse_record(self.files.read(name, 0, MAX_BLOCK), LOCK, LOCK_FIELDS)[0]
                if lock["version"].lower() != match[1]:
                    raise Damage("it is of another version")
                locks[match[1]] = f"locked until {stamp(lock['until_us'])}"
            except (OSError, Damage) as problem:
                self.report.damage(name, str(problem))
                locks[match[1]] = "locked, it is not known until when"
        untils = {}
        for attachment in self.attached.values():
            for lock in attachment.locks():
                version, until = str(lock.get("version")).lower(), lock.get("until_us")
                if isinstance(until, int):
                    untils[version] = max(until, untils.get(version, until))
        return locks | {version: f"locked until {stamp(until)}" for version, until in untils.items()}


def in_order(volumes):
    """The segments of all media, those that were written earlier first, each once: others with the same frames are its twins
    (format.md: Sessions and versions; Copies). Numbers order those of one medium, streams' sequences and times the rest."""
    first, order = {}, []
    for volume in volumes:
        for segment in volume.segments:
            first.setdefault(segment.identity(), []).append(segment)
    for same in first.values():
        same.sort(key=lambda segment: (segment.end is None) + (segment.header is None))
        same[0].twins = same[1:]
    segments = [same[0] for same in first.values()]
    behind, waits = {}, {segment.name: 0 for segment in segments}

    def edges(chain):
        for one, other in zip(chain, chain[1:]):
            behind.setdefault(one.name, []).append(other)
            waits[other.name] += 1
    streams = {}
    for segment in segments:
        for stream, extent in segment.extents().items():
            if not extent.get("sparse"):
                streams.setdefault(stream, []).append((extent["first_sequence"], segment))
    for parts in streams.values():
        edges([segment for _, segment in sorted(parts, key=lambda part: part[0])])
    for volume in volumes:
        edges([s for s in volume.segments if s.name in waits and not (s.header or {}).get("copy_of")])

    def key(at):
        written = (segments[at].header or {}).get("written_us")
        return written if isinstance(written, int) else 0, at
    at_of = {segment.name: at for at, segment in enumerate(segments)}
    ready, left = [key(at_of[name]) for name, count in waits.items() if not count], dict(at_of)
    heapq.heapify(ready)
    while left:
        # What contradicts itself goes by time.
        _, at = heapq.heappop(ready) if ready else min(map(key, left.values()))
        segment = segments[at]
        if left.pop(segment.name, None) is None:
            continue
        segment.rank = len(order)
        order.append(segment)
        for other in behind.get(segment.name, ()):
            waits[other.name] -= 1
            if not waits[other.name] and other.name in left:
                heapq.heappush(ready, key(at_of[other.name]))
    for segment in order:
        for twin in segment.twins:
            twin.rank = segment.rank
    return order


class Media:
    """The media that were given: their segments and sessions."""

    def __init__(self, given, keys, report, torn=False):
        self.keys, self.report = keys, report
        self.sessions, self.trees, self.parts, self.cache = {}, {}, {}, OrderedDict()
        self.volumes = [Volume(files, header, report, torn, len(given) > 1) for files, header in given]
        for volume in self.volumes:
            for segment in volume.segments:
                keys.add((segment.header or {}).get("keys", []))
        self.segments = in_order(self.volumes)
        for segment in self.segments:
            self.enlist(segment)
        for volume in self.volumes:
            for segment in volume.segments:
                if segment.header and not volume.header:
                    volume.header = segment.header["medium"]
            if not volume.header:
                volume.header = {"medium": "of unknown id", "block_size": volume.segments[0].block_size}

    def locks(self):
        """Until when each locked version is locked, by the media that were given."""
        locks = {}
        for volume in self.volumes:
            for version, text in volume.locks().items():
                locks.setdefault(version, set()).add(text)
        return {version: ", ".join(sorted(texts)) for version, texts in locks.items()}

    def enlist(self, segment):
        """Puts a segment to its session."""
        if segment.end is None:
            load(segment, self.report)
        if segment.header is None:
            content = load(segment, self.report)
            keys = (segment.header or {}).get("keys", [])
            self.keys.add(keys)
            labels = [part.label for part in content.parts.values() if part.label]
            label = segment.header["session"] if segment.header else labels[0] if labels else None
        else:
            label = segment.header["session"]
        if not self.enlist_to(segment, label):
            self.report.damage(segment.name, "it does not tell its session; its files are lost")
            return
        self.others_to(segment, label)
        for other in (segment.end or {}).get("other_ends") or []:
            if ended := self.sessions.get(str(other["session"]["session"]).lower()):
                ended.end = other

    def others_to(self, segment, label):
        """Puts a segment to the sessions that were written together with the one of its label."""
        if label.get("stands_for"):
            return  # what a consolidation passed on is of its own version here
        others = {str(extent.get("version")).lower() for extent in segment.extents().values()} - {label["version"].lower()}
        if others or not segment.end:
            known = {label["session"].lower()}
            for part in load(segment, self.report).parts.values():
                if part.label and part.label["session"].lower() not in known:
                    known.add(part.label["session"].lower())
                    self.enlist_to(segment, part.label)

    def enlist_to(self, segment, label):
        """Puts a segment to the session of a label; False if that is none."""
        try:
            label = parse_json(json.dumps(label).encode(), LABEL_FIELDS)
        except Damage:
            return False
        for name in ("session", "object", "version", "parent", "base", "stands_for"):
            if isinstance(label.get(name), str):
                label[name] = label[name].lower()
        session = self.sessions.setdefault(label["session"], Session(label["session"], label))
        session.segments.append(segment)
        end = segment.end or segment.summary or {}
        if isinstance(end.get("session_end"), dict) and str(end.get("session")).lower() == session.id:
            session.end = end["session_end"]
        return True

    def lacks(self, session):
        """What of a session lies on media that were not given, as far as those that were tell it."""
        if session.lacks is not None:
            return session.lacks
        session.lacks, given = [], set().union(*(volume.ids() for volume in self.volumes))
        ends = {}  # where each stream goes on; None: not known
        for before, segment in zip([None, *session.segments], session.segments):
            own = {stream: extent for stream, extent in segment.extents().items() if not extent.get("sparse")
                   and str(extent.get("version", session.label["version"])).lower() == session.label["version"]}
            goes_on = before and any(ends.get(stream) == extent["first_sequence"] for stream, extent in own.items())
            follows = (segment.header or {}).get("follows")
            if isinstance(follows, dict) and str(follows.get("medium")).lower() not in given and not goes_on:
                session.lacks.append("before {} it wrote the medium {} {}, which was not given".format(
                    segment.name, follows.get("medium"), json.dumps(follows.get("label", ""))))
            for stream, extent in own.items():
                begin, comes = extent["first_sequence"], ends.get(stream, 0)
                if comes is not None and comes < begin:
                    session.lacks.append(f"frames {comes} to {begin - 1} of stream {stream.hex()[:8]} are on no medium "
                                         f"that was given; they come before {segment.name}")
                ends[stream] = begin + extent["frames"]
            if not segment.end:
                ends = dict.fromkeys([*ends, *load(segment, self.report).parts])
        missing, listed = self.listed(session)
        if missing:
            session.lacks.append("{} of the {} segments before its last, as its end lists them, are on no medium that was "
                                 "given, as {}".format(len(missing), listed, missing[0]))
        last = session.segments[-1] if session.segments else None
        goes_on = any(other.label["version"] == session.label["version"] and other.label["started_us"] > session.label["started_us"]
                      for other in self.sessions.values())
        if last and not session.end and not goes_on and last.volume.is_tape and last is last.volume.segments[-1]:
            session.lacks.append(f"it has no end: behind {last.name} it was cut off, or it goes on on a medium that was not given")
        return session.lacks

    def listed(self, session):
        """Those segments of its version that a session's end lists and no given medium has, and how many it lists. None where
        it lists none."""
        listed = (session.end or {}).get("segments")
        if not isinstance(listed, list):
            return None, 0
        known = {name for volume in self.volumes for segment in volume.segments for name in (
            (segment.id or b"").hex(), str((segment.header or {}).get("copy_of")).lower())}
        return [name for name in map(str, listed) if name.lower() not in known], len(listed)

    def say_lacks(self, session):
        for what in self.lacks(session):
            self.report.damage(f"session {session.id}", what)

    def session(self, prefix):
        matching = [s for s in self.sessions.values() if s.id.startswith(prefix.lower())]
        if len(matching) != 1:
            raise Failure(f"{len(matching)} sessions have an id that begins with {prefix}; `list` shows the ids")
        return matching[0]

    def names(self, session):
        """The JSON of a Names frame of the session, None without a key."""
        for segment in session.segments:
            content = load(segment, self.report)
            for stream, part in content.parts.items():
                own = not part.label or part.label["session"].lower() == session.id
                if part.names and own:
                    try:
                        payload = open_payload(stream, *part.names, self.keys, content.label(stream, segment))
                        return payload and parse_json(payload, {"name": str, "host": str, "method": str})
                    except Damage as problem:
                        self.report.damage(f"{segment.name} Names frame", str(problem))
        return None

    def sealed(self, session):
        """Whether the session's names are sealed for us."""
        key = session.label.get("key")
        return bool(key) and self.keys.frame_cipher(key, FOR_NAMES, bytes(16)) is None

    def session_tree(self, session):
        """What one session says of its files; paths that came to nothing are in `gone`."""
        rows, ahead, tree = {}, {}, Tree()
        for segment in session.segments:
            content = load(segment, self.report)
            for row in content.rows(segment, self.keys, self.report):
                label = content.label(row.stream, segment) or session.label
                if label["session"].lower() == session.id:
                    (ahead if row.ahead else rows).setdefault(row.path, []).append(row)
        for path, of_path in ahead.items():  # they come again where their data are, unless these are lost
            rows.setdefault(path, of_path[-1:])
        for path, of_path in rows.items():
            if any(row.kind == TOMBSTONE for row in of_path):
                tree.gone.add(path)
            inodes = [row for row in of_path if row.kind < PART]
            parts = [row for row in of_path if row.kind == PART]
            if not inodes:
                if parts and self.lacks(session):
                    tree.problems.append((path, "incomplete: its row is on no medium that was given"))
                elif parts and session.state() in ("incomplete", "failed"):
                    tree.unfinished.add(path)
                elif parts:
                    tree.problems.append((path, "contents without a row for the file"))
                continue
            home, has_parts = inodes[0].stream, any(kind == 2 for kind, _, _ in inodes[-1].extents or ())
            # Outcomes of other streams come first, so that they speak of the last row unless it was replaced later.
            outcomes = [row.outcome for row in of_path if row.kind == OUTCOME and row.stream != home and has_parts]
            last, retry = inodes[-1].order, inodes[-1].flags & 2
            outcomes += [row.outcome for row in of_path if row.kind == OUTCOME and row.stream == home
                         and not (retry and row.order < last)]
            codes = [code for code, _, _ in outcomes]
            replaced = codes.count(REPLACED)
            if replaced:
                outcomes = outcomes[len(codes) - codes[::-1].index(REPLACED):]
            entry = Entry(inodes[-1], parts, outcomes, session.id)
            if replaced >= len(inodes):
                tree.problems.append((path, "its last try was given up and no newer one follows"))
                entry.wanted = False
            elif any(code == VANISHED for code, _, _ in outcomes):
                entry.wanted = False
            (tree.files if entry.wanted else tree.hidden)[path] = entry
        return tree

    def chain(self, session):
        """The sessions of a version up to this one, oldest first."""
        chain = [session]
        while (parent := chain[0].label.get("parent")) and len(chain) <= len(self.sessions):
            resumed = self.sessions.get(parent)
            if resumed is None:
                # One that ended before it committed anything is on no medium at all: then no segment lacks.
                if self.listed(session)[0] != []:
                    self.report.damage(f"session {chain[0].id}", f"the session {parent} that it resumes is on no medium that was given")
                    break
                resumed = self.last_before(chain[0])
                if resumed is None:
                    break
            chain.insert(0, resumed)
        return chain

    def last_before(self, session):
        """The session of the same version that began last before one."""
        same = [s for s in self.sessions.values() if s.label["version"] == session.label["version"]
                and s.label["started_us"] < session.label["started_us"]]
        return max(same, key=lambda s: s.label["started_us"], default=None)

    def newest(self, version):
        """The last session of a version, or else of what stands for it."""
        of = lambda name: [s for s in self.sessions.values() if s.label.get(name) == version]
        sessions = of("version") or of("stands_for")
        resumed = {s.label.get("parent") for s in sessions}
        last = [s for s in sessions if s.id not in resumed] or sessions
        return max(last, key=lambda s: s.label["started_us"], default=None)

    def tree(self, session):
        """The state of the version with this session as its last: its sessions over its base."""
        if session.id in self.trees:
            return self.trees[session.id]
        tree, chain = Tree(), self.chain(session)
        self.trees[session.id] = tree  # ends a cycle of damaged labels
        base = chain[0].label.get("base")
        if base:
            below = self.newest(base)
            if below is None:
                self.report.damage(f"session {session.id}", f"its base, version {base}, is on no medium that was given")
            else:
                under = self.tree(below)
                tree.files.update(under.files)
                tree.hidden.update(under.hidden)
                tree.problems += under.problems
        for member in chain:
            self.say_lacks(member)
            own = self.session_tree(member)
            self.keep_links(tree, own)
            if own.gone:
                for path in [path for path in tree.files if below_any(path, own.gone)]:
                    del tree.files[path]
            for path in own.files.keys() | own.hidden.keys():
                tree.files.pop(path, None)
                tree.hidden.pop(path, None)
            tree.files.update(own.files)
            tree.hidden.update(own.hidden)
            # What a later session has anew is whole, whatever was of it before.
            tree.problems = [p for p in tree.problems if p[0] not in own.files and p[0] not in own.hidden] + own.problems
            tree.unfinished = (tree.unfinished | own.unfinished) - tree.files.keys()
        return tree

    def keep_links(self, tree, own):
        """Further names that a session has no row of keep the file that their first name was before it (format.md: Hard links)."""
        firsts = {}
        for path, entry in sorted(tree.files.items()):
            target = entry.row.target
            if not entry.row.is_link or path in own.files or path in own.hidden or below_any(path, own.gone):
                continue
            new, old = own.files.get(target) or own.hidden.get(target), tree.files.get(target) or tree.hidden.get(target)
            if not (new or below_any(target, own.gone)) or new and is_still(entry.row, new.row):
                continue
            if target in firsts:
                tree.files[path] = replace(entry, row=replace(entry.row, target=firsts[target]))
            elif old and not old.row.is_link and old.row.kind == entry.row.kind:
                row = replace(old.row, dir=entry.row.dir, name=entry.row.name)
                tree.files[path] = replace(old, row=row, wanted=True, known_as=old.known_as or target)
                firsts[target] = path
            else:
                del tree.files[path]
                tree.problems.append((path, f"it is a link to {show(target)}, which has no row of then"))

    def data(self, row, start, end):
        """The contents of a range of a row's stream in its segment, as (logical offset, bytes, or None for
        zeros, length). What is damaged comes from a copy or mirror that was given too, else it is left out."""
        return self.data_in([row.segment, *row.segment.twins], row.stream, start, end)

    def data_in(self, segments, stream, start, end):
        segment, others = segments[0], segments[1:]
        places = load(segment, self.report).part(stream).places
        at = max(bisect_right(places, (start, 1 << 64)) - 1, 0)
        while at < len(places) and places[at][0] < end:
            try:
                frame, payload = self.frame(segment, stream, places[at])
            except Damage as problem:
                where = f"{segment.name} stream {stream.hex()[:8]} frame {places[at][1]}"
                if not segment.content.scanned:
                    load_by_scan(segment)
                    yield from self.data_in(segments, stream, start, end)
                    return
                at += 1
                if others:
                    self.report.note(where, f"{problem}; it is taken from {others[0].name}")
                else:
                    self.report.damage(where, str(problem))
                continue
            low, high = max(start, frame.logical), min(end, frame.logical + frame.length)
            if low < high:
                if others and start < low:
                    yield from self.data_in(others, stream, start, low)
                yield low, payload and payload[low - frame.logical:high - frame.logical], high - low
                start = high
            at += 1
        rest = min(end, load(segment, self.report).part(stream).end)
        if others and start < rest:
            yield from self.data_in(others, stream, start, rest)

    def data_at(self, session, stream, start, end):
        """The contents of a range of any stream that a session, one before it or a base has, as `data`."""
        for segment in self.having(session, stream, start, end):
            yield from self.data(Where(segment, stream), start, min(end, segment.extents()[stream]["logical_end"]))

    def having(self, session, stream, start, end):
        """The segments of a session, of those that it goes on with and of its bases that have some of a stream's range, in order."""
        if session not in self.parts:
            parts = {}
            for segment in {s.name: s for member in self.below(self.sessions[session]) for s in member.segments}.values():
                for of, extent in segment.extents().items():
                    parts.setdefault(of, []).append((extent["logical_start"], extent["logical_end"], segment.name, segment))
            self.parts[session] = {of: sorted(found) for of, found in parts.items()}
        for begin, stop, _, segment in self.parts[session].get(stream, ()):
            if begin < end and start < stop:
                yield segment

    def below(self, session):
        """The sessions that a session refers to: those of its version, and of the versions that this builds on."""
        seen = set()
        while session is not None and session.id not in seen:
            chain = self.chain(session)
            seen.update(member.id for member in chain)
            yield from chain
            base = chain[0].label.get("base")
            session = self.newest(base) if base else None

    def lacks_base(self, session):
        """Whether some version that a session's builds on is on no medium that was given."""
        return any(member.label.get("base") and self.newest(member.label["base"]) is None for member in self.below(session))

    def frame(self, segment, stream, place):
        """The frame at a place and its opened payload, from the most recent ones if it is there."""
        at = (segment.name, stream, place[1])
        if at not in self.cache:
            found = segment.content.part(stream).pieces.get(place[1])
            frame, pieces = found or locate(segment, stream, place)
            stored = b"".join(segment.read(offset, count) for offset, count in pieces)
            payload = None
            if frame.type != FILL:
                check_payload(stream, frame, stored)
                payload = open_payload(stream, frame, stored, self.keys, segment.content.label(stream, segment))
                if payload is None:
                    raise Failure("no secret opens the contents; see --passphrase-file, --key-file, --recovery-code")
            self.cache[at] = (frame, payload)
            if len(self.cache) > 16:
                self.cache.popitem(last=False)
        self.cache.move_to_end(at)
        return self.cache[at]


def locate(segment, stream, place):
    """The frame at a place that an index gave, and the pieces of the file with its payload."""
    logical, sequence, block, byte = place
    frame, pieces, left, at = None, [], None, segment.offset_of(block)
    while left is None or left:
        length = segment.short.get(block, segment.block_size)
        if at >= segment.size:
            raise Damage("the segment ends before it")
        try:
            da = parse_da(segment.read(at, 128), length)
        except Damage:
            da = None  # whose the block is then, the frame's checksum tells
        if da is None or da.stream == stream:
            begin = at + 128
            if frame is None:
                frame = parse_frame(segment.read(begin + byte, 48), stream)
                if (frame.sequence, frame.logical) != (sequence, logical) or not is_logical(frame):
                    raise Damage("another frame than the index says")
                left, begin = frame.stored, begin + byte + 48
            take = min(left, at + 128 + (da.used if da else length - 128) - begin)
            if take > 0:
                pieces.append((begin, take))
                left -= take
        elif frame is None:
            raise Damage("another stream's block than the index says")
        at, block = at + length, block + 1
    return frame, pieces


def is_still(link, first):
    """Whether a later row of a link's first name is of the file that it was: moved back, or with other metadata alone."""
    as_it_was = any(kind == 3 for kind, _, _ in first.extents or ())
    same = (first.ino, first.size, first.mtime_ns) == (link.ino, link.size, link.mtime_ns)
    return first.kind == link.kind and not first.is_link and (as_it_was or same)


def below_any(path, tops):
    """Whether the path or a directory above it is among these."""
    while path not in tops and path:
        path = path.rpartition(b"/")[0]
    return path in tops


# row None: as in another version, or (version is a stream and an offset) in another stream of the same version or of its bases
Piece = namedtuple("Piece", "start end row logical version")
Where = namedtuple("Where", "segment stream")
AT = 8


def layout(entry):
    """Where a regular file's contents come from: pieces in the order of file offsets, ranges that are missing,
    and what is wrong (format.md: A file's contents)."""
    row, pieces, wanted, problems = entry.row, [], [], []
    offset, logical = 0, row.start
    for kind, length, detail in [(0, row.size, b"")] if row.extents is None else row.extents:
        end = offset + length
        if kind == AT and len(detail) == 24 and length:
            place = detail[:16], int.from_bytes(detail[16:], "little")
            pieces.append(Piece(offset, end, None, place[1], place))
        elif kind > 3:
            return [], [(0, row.size)], [f"it has extents of the unknown kind {kind}"]
        if kind in (0, 2) and length:
            wanted.append((offset, end, kind))
        if kind == 0:
            have = max(min(length, row.cut - logical), 0)
            if have:
                pieces.append(Piece(offset, offset + have, row, logical, None))
            logical += length
        if kind == 3 and length:
            pieces.append(Piece(offset, end, None, 0, detail.hex()))
        offset = end
    for part in entry.parts:
        rest = part.stream == row.stream and part.order > row.order
        if not rest and part.stream == row.stream and not any(kind == 2 for _, _, kind in wanted):
            continue  # the rest of an earlier try
        if part.part_offset + part.size > row.size:
            problems.append(f"a part goes beyond its size, to {part.part_offset + part.size}")
        high = part.part_offset + max(min(part.size, part.cut - part.start), 0)
        for start, end, kind in wanted:
            low, up = max(start, part.part_offset), min(end, high)
            if low < up and (kind == 2 or rest):
                pieces.append(Piece(low, up, part, part.start + low - part.part_offset, None))
    pieces.sort(key=lambda piece: piece.start)
    missing = gaps([(start, end) for start, end, _ in wanted], pieces, problems)
    return pieces, missing, problems


def believed(entry):
    """A file's length as far as the medium bears it out: a row may claim any."""
    row, (pieces, missing, _) = entry.row, layout(entry)
    if not missing:
        return row.size
    end, offset = max((piece.end for piece in pieces), default=0), 0
    for kind, length, _ in row.extents or ():
        offset += length
        if kind == 1:  # a hole
            end = max(end, offset)
    return min(end, row.size)


def gaps(wanted, pieces, problems):
    """The ranges wanted that no piece gives; pieces ascend by their start."""
    missing, at = [], 0
    for before, piece in zip(pieces, pieces[1:]):
        if piece.start < before.end:
            problems.append(f"its bytes from {piece.start} are given more than once")
    for start, end in wanted:
        while at < len(pieces) and pieces[at].end <= start:
            at += 1
        here = at
        while start < end:
            if here == len(pieces) or pieces[here].start >= end:
                missing.append((start, end))
                break
            if pieces[here].start > start:
                missing.append((start, pieces[here].start))
            start, here = max(start, pieces[here].end), here + 1
    return missing


# ---- list

def stamp(us):
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(us / 10**6))


def describe(path, entry):
    row = entry.row
    owner = show(row.user) if row.user else str(row.uid)
    group = show(row.group) if row.group else str(row.gid)
    size = "{}, {}".format(*row.rdev) if row.kind in (CHAR, BLOCK) else row.size
    mode = stat.filemode(TYPE_BITS[row.kind] | row.mode)
    line = f"{mode} {owner + ':' + group:<15} {size:>12} {stamp(row.mtime_ns // 1000)} {show(path)}"
    if row.is_link or row.kind == SYMLINK:
        line += (" == " if row.is_link else " -> ") + show(row.target)
    return line + "".join(f"  [{note}]" for note in entry.notes())


def command_list(medium, args):
    for volume in medium.volumes:
        header = volume.header
        print(f"medium {header['medium']} {json.dumps(header.get('label', ''))}, blocks of {header['block_size']} bytes, "
              f"{len(volume.segments)} segments, protection {json.dumps(header.get('protection'))}")
        for name, attachment in volume.attached.items():
            said = attachment.said
            print(f"{name}: {said['attachment']} of {stamp(said['written_us'])}, {said['length']} bytes")
    locks = medium.locks()
    sessions = [medium.session(args.session)] if args.session else list(medium.sessions.values())
    for session in sorted(sessions, key=lambda s: s.label["started_us"]):
        label, sealed = session.label, medium.sealed(session)
        names = None if sealed else medium.names(session)
        print(f"session {session.id} of {stamp(label['started_us'])}: {session.state()}")
        if names:
            print(f"  {names['method']} of {names['name']} on {names['host']} {' '.join(names.get('tags') or [])}")
        print(f"  object {label['object']} version {label['version']}"
              + "".join(f" {name} {label[name]}" for name in ("base", "parent", "cipher") if label.get(name)))
        if session.segments and (first := session.segments[0].header):
            if (protection := first["medium"].get("protection")) not in (None, "none"):
                until = protection.get("until_us") if isinstance(protection, dict) else None
                print("  protected " + (f"until {stamp(until)}" if isinstance(until, int) else "for ever"))
        if label["version"] in locks:
            print(f"  {locks[label['version']]}")
        medium.say_lacks(session)
        for segment in session.segments:
            end = segment.end or {"data_blocks": "?", "streams": []}
            rows, frames = (sum(extent[name] for extent in end["streams"]) for name in ("rows", "frames"))
            print(f"  segment {segment.name}: {segment.size} bytes, {end['data_blocks']} data blocks, "
                  f"{len(end['streams'])} streams, {frames} frames, {rows} rows")
        if sealed:
            print("  names and metadata are sealed; give a secret to list the files")
            continue
        tree = medium.session_tree(session)
        for path in sorted(tree.gone | tree.files.keys(), key=lambda path: path.split(b"/")):
            if path in tree.gone:
                print(f"gone since the base: {show(path)}")
            if path in tree.files:
                print(describe(path, tree.files[path]))
        for path, problem in tree.problems:
            (medium.report.damage if medium.lacks(session) else medium.report.note)(show(path), problem)
        for path in sorted(tree.unfinished):
            medium.report.note(show(path), UNFINISHED)


# ---- check (format.md: A reader, step by step)

class Checker:
    """Reads everything that is on a medium, and compares what is there twice."""

    def __init__(self, medium):
        self.medium, self.keys, self.report = medium, medium.keys, medium.report
        self.carried, self.lost, self.frames, self.blocks, self.unopened = {}, {}, 0, 0, 0

    def run(self):
        for segment in self.medium.segments:
            before = dict(self.carried)
            self.segment(segment)
            after = self.carried
            for twin in segment.twins:
                self.carried = dict(before)
                self.segment(twin)
                self.lost[segment.name] = both(self.lost[segment.name], self.lost[twin.name])
            self.carried = after
        several = len(self.medium.volumes) > 1
        for volume in self.medium.volumes:
            header = volume.header
            if volume.header_problem:
                self.report.damage(f"{volume.path}: medium.capstan" if several else "medium.capstan", volume.header_problem)
            for segment in volume.segments:
                theirs = segment.header and segment.header["medium"]
                if theirs and (theirs["medium"], theirs["block_size"]) != (header["medium"], header["block_size"]):
                    self.report.damage(segment.name, "it is of another medium")
            for name, attachment in volume.attached.items():
                try:
                    attachment.check()
                except Damage as problem:
                    self.report.damage(f"{volume.path}: {name}" if several else name, str(problem))
        files = sum(self.files(session) for session in self.medium.sessions.values())
        segments = sum(len(volume.segments) for volume in self.medium.volumes)
        print(f"{segments} segments, {self.blocks} blocks, {self.frames} frames, {files} files checked; "
              f"{self.report.count} found damaged")
        if self.unopened:
            print(f"{self.unopened} sealed frames were not opened for want of a key: only their checksums were checked")

    def segment(self, segment):
        for where, problem in segment.problems:
            self.report.damage(f"{segment.name} {where}", problem)
        before = self.report.count
        scan, content, seen = Scan(segment, self.report, self.carried), Content(), {}
        copies, summary_last, rows = [], False, {}
        for found in scan.frames():
            where = f"{segment.name} block {found.block}, stream {found.stream.hex()[:8]} frame {found.frame.sequence}"
            self.frames += 1
            try:
                if found.stream == segment.id:
                    content.add_catalog(found)
                    summary_last = found.frame.type == SUMMARY
                    continue
                frame = found.frame
                mine = seen.setdefault(found.stream, [])
                mine.append((frame.sequence, int(is_logical(frame)), frame.logical, found.block, found.byte))
                expected = {1: LABEL, 2: NAMES}.get(len(mine))
                if expected and frame.type != expected:
                    self.report.damage(where, f"frame of type {frame.type} where the stream's part should begin")
                if frame.type in (LABEL, NAMES, BATCH, SUMS):
                    copies.append((found.stream, frame.raw))
                elif frame.type not in (CONTENT, FILL):
                    self.report.note(where, f"skipped, of the unknown type {frame.type}")
                content.add_frame(found, keep_places=False)
                self.open(segment, content, found, rows, scan)
            except Damage as problem:
                self.report.damage(where, str(problem))
        self.blocks += len(scan.lengths)
        segment.summary = segment.summary or content.summary
        self.lost[segment.name] = scan.lost()
        for stream, joiner in scan.joiners.items():
            if stream != segment.id and not joiner.sparse:
                self.carried[stream] = (joiner.position, joiner.sequence, joiner.logical)
        if segment.end:
            self.compare_end(segment, scan, content, seen, rows)
        self.compare_catalog(segment, content, seen, copies, summary_last, damaged=self.report.count > before)
        content.finish(segment)

    def open(self, segment, content, found, rows, scan):
        """Opens a frame if there is a key for it; decodes batches."""
        frame, stream = found.frame, found.stream
        if frame.type == FILL:
            content.part(stream).fills.append((frame.logical, frame.logical + frame.length))
        if found.payload is None or frame.type not in (LABEL, BATCH, CONTENT, NAMES, SUMS):
            return
        try:
            payload = open_payload(stream, frame, found.payload, self.keys, content.label(stream, segment))
            if payload is None:
                self.unopened += 1
            elif frame.type == BATCH:
                rows[stream] = rows.get(stream, 0) + len(decode_batch(payload)[1])
            elif frame.type == LABEL:
                extent, label = segment.extents().get(stream, {}), json.loads(payload)
                if segment.header and not extent.get("sparse") and label != segment.header["session"]:
                    together = label.get("session") != segment.header["session"]["session"]
                    if not together or extent and str(label.get("version")).lower() != str(extent["version"]).lower():
                        raise Damage("the label is not that of the segment header")
            elif frame.type == SUMS:
                cursor = Cursor(payload)
                cursor.varint()
                cursor.take(8 * cursor.varint())
                if cursor.at < len(payload):
                    for _ in range(cursor.varint()):
                        cursor.varint()
                        cursor.take(8)
                if cursor.at != len(payload):
                    raise Damage("length of checksums of contents")
            elif frame.type == NAMES:
                parse_json(payload, {"name": str, "host": str, "method": str})
        except Damage:
            if frame.type == CONTENT:
                scan.joiners[stream].lose(frame.logical, frame.logical + frame.length)
            if frame.type == BATCH:
                content.part(stream).batches.pop(frame.sequence, None)  # so that the copy is taken
            raise

    def compare_end(self, segment, scan, content, seen, rows):
        """Compares the end record with what was read."""
        end, lengths = segment.end, scan.lengths
        data_blocks, last = end["data_blocks"], end["blocks"] - 1
        short = [[i, n] for i, n in sorted(lengths.items()) if i <= data_blocks and n != segment.block_size]
        facts = [("blocks", len(lengths) == end["blocks"] and max(lengths, default=0) == last),
                 ("short_blocks", short == end["short_blocks"]),
                 ("catalog_at", sum(n for i, n in lengths.items() if i <= data_blocks) == end["catalog_at"]),
                 ("data_blocks", all(kind in (None, SEGMENT_HEADER if i == 0 else DATA if i <= data_blocks else
                                              CATALOG if i < last else SEGMENT_END) for i, kind in scan.kinds.items())),
                 ("session", not segment.header or (segment.header["session"].get("session"),
                                                    segment.header.get("number")) == (end["session"], end.get("number"))),
                 ("streams", seen.keys() <= segment.extents().keys())]
        for name, holds in facts:
            if not holds:
                self.report.damage(f"{segment.name} segment end", f"{name} does not agree with the blocks")
        for stream, extent in segment.extents().items():
            where, joiner = f"{segment.name} stream {stream.hex()[:8]}", scan.joiners.get(stream)
            if stream not in seen:
                self.report.damage(where, "none of its frames can be read")
                if not extent.get("sparse"):
                    self.carried[stream] = (None, extent["first_sequence"] + extent["frames"], extent["logical_end"])
                continue
            first = seen[stream][0]
            if extent.get("sparse"):
                first = next((place for place in seen[stream] if place[1]), first)
            facts = [("first_sequence", seen[stream][0][0], extent["first_sequence"]),
                     ("frames", len(seen[stream]), extent["frames"]),
                     ("logical_start", first[2], extent["logical_start"]),
                     ("logical_end", joiner.logical, extent["logical_end"]),
                     ("rows", rows.get(stream, extent["rows"]), extent["rows"])]
            for name, found, said in facts:
                if found != said:
                    self.report.damage(where, f"{name}: {found} found where the end record says {said}")

    def compare_catalog(self, segment, content, seen, copies, summary_last, damaged):
        """Compares the catalog with records, frames and places."""
        where = f"{segment.name} catalog"
        if not content.summary or not summary_last:
            self.report.damage(where, "it does not end with a summary")
        elif segment.end and content.summary != segment.end | {"blocks": 0}:
            self.report.damage(where, "its summary is not the segment end's")
        if content.header != segment.header and segment.header:
            self.report.damage(where, "its header is not the segment header's")
        if damaged:  # then what differs has been named
            return
        if content.copies != copies:
            self.report.damage(where, "its copies are not the streams' labels, names and batches")
        if content.index != seen:
            self.report.damage(where, "its index is not where the frames are")

    def files(self, session):
        """Names the files of a session that are not whole; returns the number of files."""
        self.medium.say_lacks(session)
        if self.medium.sealed(session):
            if any(ranges for segment in session.segments for ranges in self.lost[segment.name].values()):
                self.report.damage(f"session {session.id}", "data of it are lost; give a key to know of which files")
            return 0
        if not session.end and not self.medium.lacks(session):
            self.report.note(f"session {session.id}", "it is incomplete: it was cut off, or its last segments are elsewhere")
        tree, broken = self.medium.session_tree(session), set()
        for path, problem in tree.problems:
            self.report.damage(show(path), problem)
        for path in sorted(tree.unfinished):
            self.report.note(show(path), UNFINISHED)
        for path, entry in sorted(tree.files.items(), key=lambda item: item[1].row.is_link):
            target = entry.row.target
            if entry.row.is_link and target in broken:
                self.report.damage(show(path), f"incomplete, as {show(target)} is, to which it is a link")
            elif entry.row.is_link and not (target in tree.files or target in tree.hidden
                                            or session.label.get("base") or session.label.get("parent")):
                self.report.damage(show(path), f"it is a link to {show(target)}, which has no row")
            if entry.row.kind != REGULAR or entry.row.is_link:
                continue
            before = len(self.report.said)
            pieces, missing, problems = layout(entry)
            for problem in problems:
                self.report.damage(show(path), problem)
            for start, end in missing:
                say = self.report.damage if session.end or self.medium.lacks(session) else self.report.note
                say(show(path), f"incomplete, bytes {start} to {end} are missing")
            for piece in pieces:
                if piece.row is None and isinstance(piece.version, tuple):
                    self.elsewhere(session, path, piece)
                if piece.row is None:
                    continue
                low, high = piece.logical, piece.logical + piece.end - piece.start
                for start, end in self.lost[piece.row.segment.name].get(piece.row.stream, ()):
                    if start < high and low < end:
                        self.damaged(path, piece, max(start, low), min(end, high))
                fills = piece.row.segment.content.part(piece.row.stream).fills
                if session.label.get("key") and any(start < high and low < end for start, end in fills) \
                        and not any(code in (SHORT, UNREADABLE) for code, _, _ in entry.outcomes):
                    self.report.damage(show(path), "zeros stand in for data, and no outcome explains them")
            if len(self.report.said) > before:
                broken.add(path)
        return len(tree.files)


    def damaged(self, path, piece, low, high):
        """Names a file of which a range is damaged, unless its frames can be had by the index although their blocks' headers are lost."""
        quiet, self.medium.report = self.medium.report, Report()
        try:
            for start, _, length in self.medium.data(piece.row, low, high):
                low = start + length if start <= low else low
        except Failure:
            pass
        finally:
            self.medium.report = quiet
        if low < high:
            at = piece.start - piece.logical
            self.report.damage(show(path), f"incomplete, bytes {at + low} to {at + high} are damaged")

    def elsewhere(self, session, path, piece):
        """Names a file of which some of what lies in another stream is damaged or not there."""
        (stream, low), high = piece.version, piece.version[1] + piece.end - piece.start
        at, segments = low, list(self.medium.having(session.id, stream, low, high))
        for segment in segments:
            extent = segment.extents()[stream]
            at = max(at, extent["logical_end"]) if extent["logical_start"] <= at else at
            for start, end in self.lost[segment.name].get(stream, ()):
                if start < high and low < end:
                    self.report.damage(show(path), "incomplete, bytes {} to {} are damaged".format(
                        piece.start - low + max(start, low), piece.start - low + min(end, high)))
        if at < high and not segments and self.medium.lacks_base(session):
            self.report.note(show(path), "its contents are in a base that is on no medium that was given")
        elif at < high:
            self.report.damage(show(path), f"incomplete, bytes from {piece.start - low + at} on are missing")


def both(one, other):
    """The ranges, by stream, that are in each of two lists."""
    common = {stream: [(max(a, c), min(b, d)) for a, b in ranges for c, d in other.get(stream, ()) if max(a, c) < min(b, d)]
              for stream, ranges in one.items()}
    return {stream: ranges for stream, ranges in common.items() if ranges}


# ---- extract (format.md: A file's contents, Hard links, Restoring metadata)

GET_FLAGS, SET_FLAGS = 0x80086601, 0x40086602
ACLS = (b"system.posix_acl_access", b"system.posix_acl_default")
SETTABLE, BLOCKING = 0x008100FF & ~0x30, 0x30  # inode flags: those that can be set early; immutable, append only


class Extractor:
    """Restores files below a directory, into which no link of the backup leads out."""

    def __init__(self, medium, into):
        self.medium, self.report, self.into = medium, medium.report, os.fsencode(into)
        self.real_dirs, self.restored, self.blocked, self.broken = set(), {}, [], set()
        self.as_root, self.count = os.geteuid() == 0, 0

    def run(self, tree, selected):
        os.makedirs(self.into, exist_ok=True)
        for path in selected:
            if path not in tree.files and not any(other.startswith(path + b"/") for other in tree.files):
                self.report.damage(show(path), "it is not in this version")
        def is_wanted(path):
            return not selected or below_any(path, selected)
        wanted = {path: entry for path, entry in tree.files.items() if is_wanted(path)}
        for path, problem in tree.problems:
            if is_wanted(path):
                self.report.damage(show(path), problem)
        for path in sorted(filter(is_wanted, tree.unfinished)):
            self.report.note(show(path), UNFINISHED)
        order = sorted(wanted, key=lambda path: path.split(b"/"))
        links, dirs = [], []
        for path in order:
            if wanted[path].row.kind == DIRECTORY and self.attempt(path, self.directory, path):
                dirs.append(path)
        others = [path for path in order if wanted[path].row.kind != DIRECTORY]
        others.sort(key=lambda path: (wanted[path].row.segment.rank, wanted[path].row.stream, wanted[path].row.start))
        for path in others:
            if wanted[path].row.is_link:
                links.append(path)
            else:
                self.attempt(path, self.file, path, wanted[path])
        for path in links:
            self.attempt(path, self.link, path, wanted[path], tree)
        for path in reversed(dirs):
            self.attempt(path, self.metadata, self.place(path), wanted[path].row)
        for place, flags in self.blocked:
            self.attempt(place, self.set_flags, place, flags)
        print(f"{self.count} files and {len(dirs)} directories restored, {self.report.count} damaged or incomplete")

    def attempt(self, path, action, *args):
        try:
            action(*args)
            return True
        except (OSError, Damage) as problem:
            self.report.damage(show(path), str(problem))
            return False

    def place(self, path):
        """Where a path is restored. Its directories are made, and must not be links."""
        parts = path.split(b"/") if path else []
        if any(part in (b"", b".", b"..") or b"\0" in part for part in parts):
            raise Damage("not restored: its name could lead out of the directory")
        place = self.into
        for part in parts[:-1]:
            place = os.path.join(place, part)
            if place not in self.real_dirs:
                self.make_dir(place)
        return os.path.join(place, parts[-1]) if parts else place

    def make_dir(self, place):
        if not os.path.lexists(place):
            os.mkdir(place, 0o700)
        elif not stat.S_ISDIR(os.lstat(place).st_mode):
            raise Damage("not restored: something that is no directory is in its place")
        self.real_dirs.add(place)

    def directory(self, path):
        place = self.place(path)
        if path:
            self.make_dir(place)

    def clear(self, path):
        """The place of a file to be made, with nothing in it."""
        place = self.place(path)
        if os.path.lexists(place):
            os.unlink(place)
        return place

    def file(self, path, entry):
        """Makes anything but directories and links."""
        row, place = entry.row, self.clear(path)
        if row.kind == REGULAR:
            with open(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "wb", 0) as file:
                os.ftruncate(file.fileno(), believed(entry))
                self.contents(file.fileno(), path, entry)
        elif row.kind == SYMLINK:
            os.symlink(row.target, place)
        elif row.kind in (CHAR, BLOCK) and not self.as_root:
            self.report.damage(show(path), "not restored: only root can make devices")
            return
        else:
            os.mknod(place, TYPE_BITS[row.kind] | 0o600, os.makedev(*row.rdev))
        self.count += 1
        self.restored[row.segment.name, row.order, row.stream] = place
        for note in entry.notes():
            self.report.note(show(path), note)
        self.metadata(place, row)
        if path in self.broken:
            os.utime(place, ns=(0, 0), follow_symlinks=False)

    def incomplete(self, path, what):
        self.broken.add(path)
        self.report.damage(show(path), f"incomplete, {what}")

    def contents(self, fd, path, entry, ranges=None, depth=0):
        """Writes a file's contents, or ranges of them; holes are left."""
        pieces, missing, problems = layout(entry)
        for problem in problems:
            self.incomplete(path, problem)
        for low, high in ranges or [(0, entry.row.size)]:
            for start, end in missing:
                if start < high and low < end:
                    self.incomplete(path, f"bytes {max(start, low)} to {min(end, high)} are missing")
            for piece in pieces:
                start, end = max(piece.start, low), min(piece.end, high)
                if start >= end:
                    continue
                if piece.row is None and not isinstance(piece.version, tuple):
                    self.earlier(fd, entry.known_as or path, piece.version, (start, end), depth)
                    continue
                shift, at = piece.start - piece.logical, start
                if piece.row is None:
                    data = self.medium.data_at(entry.session, piece.version[0], start - shift, end - shift)
                else:
                    data = self.medium.data(piece.row, start - shift, end - shift)
                for logical, payload, length in data:
                    if logical + shift > at:
                        self.incomplete(path, f"bytes {at} to {logical + shift} are damaged")
                    if payload is not None:
                        write_all(fd, payload, logical + shift)
                    at = logical + shift + length
                if at < end:
                    self.incomplete(path, f"bytes {at} to {end} are damaged")

    def earlier(self, fd, path, version, range_, depth):
        """Writes a range that is as in an earlier version."""
        session = self.medium.newest(version)
        entry = self.medium.tree(session).files.get(path) if session else None
        if entry is None or entry.row.kind != REGULAR or depth > 1000:
            self.incomplete(path, f"it needs version {version}, in which it is on no medium that was given")
        else:
            self.contents(fd, path, entry, [range_], depth + 1)

    def link(self, path, entry, tree):
        """Makes a further name of an inode; if the first was not restored, the file itself."""
        target = entry.row.target
        first = next((own for own in (tree.files.get(target), tree.hidden.get(target))
                      if own and not own.row.is_link and own.row.kind == entry.row.kind), None)
        if first is None:
            raise Damage(f"not restored: it is a link to {show(target)}, which has no row")
        place = self.restored.get((first.row.segment.name, first.row.order, first.row.stream))
        if place is None or (first.row.ino, first.row.dev) != (entry.row.ino, entry.row.dev):
            self.file(path, first)
        else:
            os.link(place, self.clear(path), follow_symlinks=False)
            self.count += 1
            if target in self.broken:
                self.incomplete(path, f"as {show(target)} is, to which it is a link")

    def metadata(self, place, row):
        """Owner, extended attributes, mode, flags, times; flags that block writing come when all is done."""
        symlink = row.kind == SYMLINK
        if self.as_root:
            os.chown(place, number(row.user, row.uid, pwd.getpwnam), number(row.group, row.gid, grp.getgrnam),
                     follow_symlinks=False)
        for name, value in row.xattrs:
            try:
                if name in ACLS:
                    value = acl_here(value, row.acl_names)
                os.setxattr(place, name, value, follow_symlinks=False)
            except OSError as error:
                self.report.note(show(place), f"extended attribute {show(name)}: {error.strerror}")
        if not symlink:
            os.chmod(place, row.mode)
        if row.kind in (REGULAR, DIRECTORY) and row.inode_flags & SETTABLE:
            self.set_flags(place, row.inode_flags & SETTABLE)
        os.utime(place, ns=(row.mtime_ns, row.mtime_ns), follow_symlinks=False)
        if row.kind in (REGULAR, DIRECTORY) and row.inode_flags & BLOCKING and self.as_root:
            self.blocked.append((place, row.inode_flags & (SETTABLE | BLOCKING)))

    def set_flags(self, place, flags):
        fd = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            now = struct.unpack("<i", fcntl.ioctl(fd, GET_FLAGS, bytes(4)))[0]
            want = now & ~(SETTABLE | BLOCKING) | flags
            if want != now:
                fcntl.ioctl(fd, SET_FLAGS, struct.pack("<i", want))
        except OSError as error:
            if error.errno not in (errno.ENOTTY, errno.EOPNOTSUPP, errno.EPERM):
                raise
            self.report.note(show(place), f"inode flags: {error.strerror}")
        finally:
            os.close(fd)


def write_all(fd, data, at):
    view = memoryview(data)
    while view:
        done = os.pwrite(fd, view, at)
        view, at = view[done:], at + done


def number(name, fallback, lookup):
    """The number that a user's or group's name has here, else the number it had."""
    try:
        return lookup(os.fsdecode(name))[2] if name else fallback
    except KeyError:
        return fallback


def acl_here(value, names):
    """An ACL with the users and groups that it names as they are here (linux/posix_acl_xattr.h)."""
    if not names or value[:4] != b"\x02\0\0\0" or len(value) % 8 != 4:
        return value
    entries = [struct.unpack_from("<HHI", value, at) for at in range(4, len(value), 8)]
    for at, (tag, permissions, id_) in enumerate(entries):
        if tag == 2:
            entries[at] = (tag, permissions, number(names[0].get(id_), id_, pwd.getpwnam))
        elif tag == 8:
            entries[at] = (tag, permissions, number(names[1].get(id_), id_, grp.getgrnam))
    entries.sort(key=lambda entry: (entry[0], entry[2]))
    return value[:4] + b"".join(struct.pack("<HHI", *entry) for entry in entries)


def command_extract(medium, args):
    if args.session:
        session = medium.session(args.session)
    else:
        sessions = list(medium.sessions.values())
        if len({s.label["object"] for s in sessions}) != 1:
            raise Failure("the media hold backups of several objects; choose one by --session, see `list`")
        session = medium.newest(max(sessions, key=lambda s: s.label["started_us"]).label["version"])
    if medium.sealed(session):
        raise Failure("the session is encrypted and no secret given opens it")
    if not session.end and not medium.lacks(session):
        medium.report.note(f"session {session.id}", "it is incomplete; what was committed is restored")
    selected = {os.fsencode(path).strip(b"/") for path in args.paths} - {b""}
    Extractor(medium, args.into).run(medium.tree(session), selected)


def main():
    parser = argparse.ArgumentParser(description="Reads Capstan media without Capstan.")
    parser.add_argument("command", choices=["list", "check", "extract"],
                        help="list sessions, segments and files; read everything and name all damage; restore files")
    parser.add_argument("medium", help="directory of the medium")
    parser.add_argument("paths", nargs="*", help="extract: files or directories to restore; all without. list and check: further media")
    parser.add_argument("--into", help="extract: directory into which to restore")
    parser.add_argument("--session", help="list, extract: id of a session, or the begin of one")
    parser.add_argument("--passphrase-file", help="file with the passphrase; one line end at its end is dropped")
    parser.add_argument("--key-file", help="key file")
    parser.add_argument("--recovery-code", help="recovery code, or @FILE with it")
    parser.add_argument("--member", action="append", default=[], metavar="DIR", help="another member of the array")
    parser.add_argument("--and", action="append", default=[], metavar="MEDIUM", dest="further",
                        help="a further medium: what a backup spans, or what its incrementals build on")
    parser.add_argument("--torn", action="store_true", help="also read segments whose writing was cut off (.part)")
    args = parser.parse_intermixed_args()
    if (args.command == "extract") != bool(args.into):
        parser.error("extract needs --into DIR; list and check do not take it")
    further = args.further if args.into else [*args.paths, *args.further]
    try:
        report = Report(sys.stdout if args.command == "check" else sys.stderr)
        given = assemble([args.medium], args.member, further)
        medium = Media(given, read_secrets(args, report), report, args.torn)
        if args.command == "check":
            Checker(medium).run()
        else:
            (command_list if args.command == "list" else command_extract)(medium, args)
        return 3 if report.count else 0
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (Failure, OSError) as error:
        print(f"read_medium: {error}", file=sys.stderr)
        return 1


def read_secrets(args, report):
    def content(name):
        with open(name, "rb") as file:
            return file.read()
    passphrase = os.environb.get(b"CAPSTAN_PASSPHRASE")
    if args.passphrase_file:
        passphrase = re.sub(rb"\r?\n\Z", b"", content(args.passphrase_file))
    code = args.recovery_code
    if code and code.startswith("@"):
        code = content(code[1:]).decode("utf-8", "replace")
    return Keys(report, passphrase, args.key_file and content(args.key_file), code and parse_recovery_code(code))


if __name__ == "__main__":
    sys.exit(main())
