#!/usr/bin/env python3
"""Runs a static x86-64 program on an emulated CPU.

usage: run_emulated.py [--cpu MODEL] [--timeout SECONDS] [--cache DIR]
                       PROGRAM [ARGUMENT...]

The Bochs emulator boots Debian's cloud kernel from a CD image whose only
process is the program. Its output comes out here, and its exit status is this
one's; 2 if the emulator or the kernel failed.

--cpu      model of the emulated CPU (default corei7_icelake_u: AVX-512, VNNI;
           `bochs-bin --help cpu` lists them)
--timeout  seconds until the emulator is ended (default 1500)
--cache    folder for the kernel and the built init (default: emulator in the
           current folder)

Debian packages: bochs, bochs-term, isolinux, syslinux-common, xorriso. The
kernel is downloaded once, unpacked and not installed.
"""

import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parent
BOOT_FILES = [
    pathlib.Path("/usr/lib/ISOLINUX/isolinux.bin"),
    pathlib.Path("/usr/lib/syslinux/modules/bios/ldlinux.c32"),
]
# What takes long in an emulator is switched off. Bochs 2.7 reports sizes for
# XSAVEC and PKRU that the kernel does not accept.
KERNEL_PARAMETERS = (
    "console=ttyS0,115200 quiet loglevel=1 rdinit=/init panic=-1 nosmp nokaslr "
    "noapic nolapic acpi=off mitigations=off nopti cryptomgr.notests "
    "tsc=unstable clearcpuid=fsrm,pku,ospke,xsaves,xsavec noxsaves"
)
BOOT_CONFIG = f"""default test
label test
  kernel /vmlinuz
  initrd /initrd
  append {KERNEL_PARAMETERS}
"""
MACHINE = """megs: 256
romimage: file=/usr/share/bochs/BIOS-bochs-latest
vgaromimage: file=/usr/share/bochs/VGABIOS-lgpl-latest
cpu: model={cpu}, count=1, ips=50000000, reset_on_triple_fault=0, ignore_bad_msrs=1
clock: sync=none, time0=utc
display_library: rfb, options="timeout=0"
boot: cdrom
ata0: enabled=1
ata0-master: type=cdrom, path={folder}/boot.iso, status=inserted
com1: enabled=1, mode=file, dev={folder}/console
log: {folder}/log
panic: action=fatal
"""


class EmulatorError(Exception):
    """The program was not run."""


def command(arguments, **options):
    result = subprocess.run(arguments, capture_output=True, text=True,
                            **options)
    if result.returncode:
        raise EmulatorError(f"{arguments[0]}: {result.stderr.strip()}")
    return result.stdout


def require_tools():
    missing = [str(path) for path in BOOT_FILES if not path.exists()]
    missing += [name for name in ("bochs-bin", "xorriso")
                if not shutil.which(name)]
    if missing:
        raise EmulatorError("missing: " + ", ".join(missing) +
                            "; see --help for the packages")


def fetch_kernel(cache):
    kernel = cache / "vmlinuz"
    if kernel.exists():
        return kernel
    depends = command(["apt-cache", "depends", "linux-image-cloud-amd64"])
    match = re.search(r"Depends: (linux-image-\S+)", depends)
    if not match:
        raise EmulatorError("apt knows no package linux-image-cloud-amd64")
    with tempfile.TemporaryDirectory() as folder:
        command(["apt-get", "download", match.group(1)], cwd=folder)
        package = next(pathlib.Path(folder).glob("*.deb"))
        command(["dpkg-deb", "-x", str(package), f"{folder}/root"])
        unpacked = next(pathlib.Path(folder).glob("root/boot/vmlinuz-*"))
        shutil.copy(unpacked, kernel)
    return kernel


def build_init(cache):
    init = cache / "init"
    source = SOURCE / "init.c"
    if not init.exists() or init.stat().st_mtime < source.stat().st_mtime:
        command(["clang-22", "-O1", "-static", "-Wall", "-Wextra", "-Werror",
                 str(source), "-o", str(init)])
    return init


def archive_entry(number, name, mode, data=b"", device=(0, 0)):
    """A file of a cpio archive in the format `newc`."""
    name = name.encode() + b"\0"
    fields = (number, mode, 0, 0, 1, 0, len(data), 0, 0, *device, len(name), 0)
    header = b"070701" + b"".join(b"%08X" % field for field in fields) + name
    header += b"\0" * (-len(header) % 4)
    return header + data + b"\0" * (-len(data) % 4)


def initial_files(init, program, arguments):
    entries = [(name, 0o040755) for name in ("proc", "sys", "dev")]
    entries += [
        ("dev/console", 0o020600, b"", (5, 1)),
        ("init", 0o100755, init.read_bytes()),
        ("test", 0o100755, program.read_bytes()),
        ("args", 0o100644, "\n".join(["test", *arguments]).encode()),
        ("TRAILER!!!", 0),
    ]
    return b"".join(archive_entry(number, *entry)
                    for number, entry in enumerate(entries, 1))


def run(options):
    require_tools()
    options.cache.mkdir(parents=True, exist_ok=True)
    kernel = fetch_kernel(options.cache)
    init = build_init(options.cache)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        boot = folder / "cd" / "isolinux"
        boot.mkdir(parents=True)
        for path in BOOT_FILES:
            shutil.copy(path, boot)
        (boot / "isolinux.cfg").write_text(BOOT_CONFIG)
        shutil.copy(kernel, folder / "cd" / "vmlinuz")
        (folder / "cd" / "initrd").write_bytes(
            initial_files(init, options.program, options.arguments))
        command(["xorriso", "-as", "mkisofs", "-quiet", "-o",
                 str(folder / "boot.iso"), "-b", "isolinux/isolinux.bin",
                 "-no-emul-boot", "-boot-load-size", "4", "-boot-info-table",
                 str(folder / "cd")])
        machine = folder / "machine"
        machine.write_text(MACHINE.format(cpu=options.cpu, folder=folder))
        # Debian's build starts in its debugger, which is told to continue.
        # Bochs ends with status 1 when it is told to shut down.
        try:
            subprocess.run(["bochs-bin", "-q", "-f", str(machine)],
                           input=b"c\n", stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL, timeout=options.timeout)
        except subprocess.TimeoutExpired:
            print_console(folder)
            raise EmulatorError(f"no end within {options.timeout} s") from None
        console = print_console(folder)
        match = re.search(r"^emulated exit status (\d+)$", console, re.M)
        if not match:
            log = (folder / "log").read_text(errors="replace")
            raise EmulatorError("the machine stopped: " + log[-2000:])
        return int(match.group(1))


def print_console(folder):
    path = folder / "console"
    text = path.read_text(errors="replace") if path.exists() else ""
    text = text.replace("\r\n", "\n")
    sys.stdout.write(text)
    sys.stdout.flush()
    return text


def main():
    parser = argparse.ArgumentParser(
        usage=__doc__.split("usage: ")[1].split("\n\n")[0])
    parser.add_argument("--cpu", default="corei7_icelake_u")
    parser.add_argument("--timeout", type=int, default=1500)
    parser.add_argument("--cache", type=pathlib.Path,
                        default=pathlib.Path("emulator"))
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    try:
        return run(parser.parse_args())
    except (EmulatorError, OSError) as error:
        print(f"run_emulated: error: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
