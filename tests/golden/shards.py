"""Shards of small JPEG images for tests/train/images.c, whole and damaged: tests/data/shards. Needs pillow (11.3.0).
Image i of all is 16 x 16, its left half (40 i, 200 - 30 i, 20 + 35 i), its right half the same with red and blue exchanged.
usage: shards.py FOLDER"""
import gzip
import io
import os
import sys
import tarfile

from PIL import Image


def picture(i, side=16, gray=False):
    left = (40 * i, 200 - 30 * i, 20 + 35 * i)
    image = Image.new("RGB", (side, side), left)
    image.paste(left[::-1], (side // 2, 0, side, side))
    out = io.BytesIO()
    (image.convert("L") if gray else image).save(out, "JPEG", quality=98, subsampling=0)
    return out.getvalue()


def write(folder, name, files):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for path, data in files:
            entry = tarfile.TarInfo(path)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    data = out.getvalue()
    with open(os.path.join(folder, name), "wb") as file:
        file.write(gzip.compress(data, mtime=0) if name.endswith("gz") else data)


def sample(i, **how):
    return [(f"{i:04}.jpg", picture(i, **how)), (f"{i:04}.cls", b"%d" % (i % 3))]


folder = sys.argv[1]
os.makedirs(folder, exist_ok=True)
write(folder, "train-00000.tar.gz", sum((sample(i) for i in range(4)), []))
# the label first, a file of another kind, a folder in the name
write(folder, "train-00001.tar", [("a/0004.cls", b"1\n"), ("a/0004.json", b"{}"), ("a/0004.jpeg", picture(4)), ("a/.hidden", b"x")])
write(folder, "test-00000.tar", sample(5))
write(folder, "gray.tar", sample(1, gray=True))
write(folder, "no-label.tar", sample(0)[:1] + sample(1))
write(folder, "no-image.tar", sample(0) + sample(1)[1:])
write(folder, "twice.tar", sample(0) + sample(0)[:1])
write(folder, "other-size.tar", sample(0) + sample(1, side=24))
write(folder, "bad-class.tar", [("0.jpg", picture(0)), ("0.cls", b"cat")])
write(folder, "large-class.tar", [("0.jpg", picture(0)), ("0.cls", b"256")])
write(folder, "cut-image.tar", [("0.jpg", picture(0)[:-200]), ("0.cls", b"1")])
write(folder, "no-jpeg.tar", [("0.jpg", b"not a picture"), ("0.cls", b"1")])
write(folder, "empty.tar", [])
