"""From a batch script to what it trains."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path, PurePath

from . import flagscale, huggingface, megatron, torchtitan
from .expand import Part, Scope, Word
from .files import MAX_BYTES, Files, Unread
from .found import Found, Job, Reading
from .options import Options, Value, layered, of_file, of_words, overrides
from .script import Started, started

_SHELLS = ("sh", "bash", "dash", "ksh", "mksh", "zsh", "ash")
_CONFIGS = (".yaml", ".yml", ".json")
_ACTIONS = ("sft", "pt", "rlhf")
_SETTINGS = ("MODULE", "CONFIG", "CONFIG_FILE", *megatron.MINDSPEED_SETTINGS)


def find_workload(
    text: str,
    origin: str,
    arguments: Sequence[str],
    folder: Path,
    environment: Mapping[str, str] | None = None,
) -> Found:
    """Return what a batch script says of its workload; nothing of it is run.

    ``arguments`` are the script's own, ``folder`` is where it will start. What is not known
    for sure is left out, with a note.
    """
    if len(text) > 2 * MAX_BYTES:
        return Found({}, {}, (f"{origin}: too long to be read",))
    if not _is_shell(text):
        return Found({}, {}, ())
    home = folder.absolute()
    own = tuple(Word((Part(word, "command line"),)) for word in arguments)
    scope = Scope(origin, home, dict(environment or {}), home, own)
    files = Files()
    commands, notes = started(scope, text, files)
    found: list[Reading] = []
    for command in commands:
        reading = _read(command, files)
        if reading is not None:
            found.append(reading)
    return _together(found, notes)


def _is_shell(text: str) -> bool:
    first = text.partition("\n")[0].removeprefix("#!").split() if text.startswith("#!") else ["sh"]
    names = [PurePath(word).name for word in first]
    return any(name in _SHELLS for name in names[:3])


def _together(found: Sequence[Reading], notes: Sequence[str]) -> Found:
    """Return what all commands of a job say alike."""
    values: dict[str, str] = {}
    origins: dict[str, str] = {}
    kept = list(notes) if not any("model" in reading.values for reading in found) else []
    for reading in found:
        kept += reading.notes
    for name in dict.fromkeys(name for reading in found for name in reading.values):
        said = [reading for reading in found if name in reading.values]
        if len({reading.values[name] for reading in said}) == 1:
            values[name], origins[name] = said[0].values[name], said[0].origins[name]
        else:
            each = ", ".join(f"{item.values[name]} ({item.origins[name]})" for item in said[:4])
            kept.append(f"the commands of the job differ in {name}: {each}; say which counts")
    if "global-batch" not in values and "micro-batch" in values:
        kept.append(
            f"{origins['micro-batch']}: only the batch of each device is said: the global batch is "
            "that times the data-parallel size"
        )
    return Found(values, origins, tuple(dict.fromkeys(kept)))


@dataclass(frozen=True, slots=True)
class _Command:
    """A command on its way to a framework's reader."""

    words: tuple[Word, ...]
    options: Options
    job: Job
    notes: list[str]

    @property
    def names(self) -> list[str]:
        """Return the words, programs without their directories."""
        return [PurePath(word.text).name if word.text else "" for word in self.words]

    def positional(self, *programs: str) -> list[Word]:
        """Return the words after the first of some programs that stand before its options."""
        names = self.names
        at = next((names.index(name) for name in programs if name in names), len(names))
        rest = self.words[at + 1 :]
        return list(takewhile(lambda word: not word.text.startswith("-"), rest))

    def is_bare(self, option: str) -> bool:
        """Say whether an option stands without a value; ``{plan}`` behind it is none."""
        texts = [word.text for word in self.words]
        if option not in texts:
            return False
        at = texts.index(option) + 1
        return at == len(texts) or texts[at].startswith(("-", "{"))

    def file(self, words: Sequence[Word], *options: str) -> str:
        """Return the file that an option names, or one of some words; note one not known."""
        named = [self.options[name] for name in options if name in self.options]
        said = [(value.text, value.origin, value.unknown) for value in named]
        said += [
            (word.text, word.origin, word.unknown) for word in words if word.text.endswith(_CONFIGS)
        ]
        for text, origin, unknown in said[:1]:
            if not unknown:
                return text
            self.notes.append(f"{origin}: a file of settings is not read: {unknown}")
        return ""


def _read(command: Started, files: Files) -> Reading | None:
    """Return what a command says of a workload, None if it trains nothing that is known."""
    settings: dict[str, Value] = {}
    for name in _SETTINGS:
        for word in command.settings[name].words[:1] if name in command.settings else ():
            settings[name] = Value("" if word.unknown else word.text, word.origin, word.unknown)
    programs = tuple(word.text for word in command.words if not word.text.startswith("-"))
    job = Job(command.folder, files, programs, settings)
    notes: list[str] = []
    prepared = _Command(command.words, of_words(command.words), job, notes)
    readers: tuple[Callable[[_Command], Reading | None], ...] = (
        _flagscale,
        _llamafactory,
        _swift,
        _torchtitan,
        _megatron,
        _trainer,
    )
    for reader in readers:
        reading = reader(prepared)
        if reading is not None:
            _tell_lost(reading, command)
            return reading
    return None


def _tell_lost(reading: Reading, command: Started) -> None:
    """Note words that may be options, and are not known."""
    before = ""
    for word in command.words:
        if word.unknown and not word.text and not before.startswith("-"):
            reading.notes.append(
                f"{word.origin}: {word.unknown}: options that it may hold are not read"
            )
        before = word.text


def _with_file(command: _Command, name: str) -> Options:
    """Return the options of a configuration file below those of the command."""
    given = {**command.options, **overrides(command.words)}
    if not name:
        return given
    try:
        path = command.job.path(name)
        if path is None:
            raise Unread(f"{name} is not read: the folder it is in is not known")
        return layered(of_file(command.job.files, path, name), given, command.notes)
    except Unread as error:
        command.notes.append(str(error))
        return given


def _flagscale(command: _Command) -> Reading | None:
    options, names = command.options, command.names
    if "flagscale" in names and [w.text for w in command.positional("flagscale")[:1]] == ["train"]:
        main = command.file((), "config")
        origin = command.words[names.index("flagscale")].origin
    elif "config_path" in options and "config_name" in options and "run.py" in names:
        folder, name = command.file((), "config_path"), command.file((), "config_name")
        main = str(PurePath(folder) / f"{name.removesuffix('.yaml')}.yaml") if name else ""
        origin = options["config_name"].origin
    else:
        return None
    given = {**options, **overrides(command.words)}
    try:
        found = flagscale.options(command.job, main, given, command.notes) if main else {}
    except Unread as error:
        command.notes.append(str(error))
        found = {}
    reading = Reading(found, command.notes)
    megatron.read(reading, command.job)
    reading.put("framework", "flagscale", origin)
    return reading


def _llamafactory(command: _Command) -> Reading | None:
    programs = ("llamafactory-cli", "lmf", "llamafactory.cli", "launcher.py", "cli.py")
    words = command.positional(*programs)
    if [word.text for word in words[:1]] == ["train"]:
        name = command.file(words[1:2])
    elif any(word.endswith("src/train.py") for word in command.job.programs):
        name = command.file(command.positional("train.py")[:1])
    else:
        return None
    reading = Reading(_with_file(command, name), command.notes)
    if reading.has("model_name_or_path") and not reading.has("finetuning_type"):
        reading.put("train", "lora", "LLaMA-Factory's default")
    return _trained(reading, command, "llamafactory")


def _swift(command: _Command) -> Reading | None:
    names = command.names
    for program in ("swift", "megatron"):
        words = command.positional(program)
        if program in names and words and words[0].text in _ACTIONS:
            break
    else:
        return None
    name = command.file(words[1:2], "config")
    reading = Reading(_with_file(command, name), command.notes)
    if program == "swift":
        return _trained(reading, command, "swift")
    huggingface.training(reading)
    megatron.read(reading, command.job)
    huggingface.read(reading, command.job)
    place = command.words[names.index("megatron")].origin
    reading.put("framework", _kind(reading, command.job), place)
    return reading


def _kind(reading: Reading, job: Job) -> str:
    """Return which of those with Megatron's arguments is meant."""
    if any("flagscale" in word.lower() for word in (*job.programs, str(job.folder))):
        return "flagscale"
    return "mindspeed" if megatron.is_mindspeed(reading, job) else "megatron"


def _torchtitan(command: _Command) -> Reading | None:
    options, settings = dict(command.options), command.job.settings
    is_own = any("torchtitan" in word for word in command.job.programs)
    if "run_train.sh" in command.names:
        is_own = True
        for name in ("MODULE", "CONFIG", "CONFIG_FILE"):
            if name in settings:
                key = "job.config_file" if name == "CONFIG_FILE" else name.lower()
                options.setdefault(key, settings[name])
    file = options.get("job.config_file")
    if not (is_own or file or ("module" in options and "config" in options)):
        return None
    named = _Command(command.words, options, command.job, command.notes)
    reading = Reading(_with_file(named, file.text if file else ""), command.notes)
    torchtitan.read(reading, command.job)
    if not reading.values:
        return None
    reading.put("framework", "torchtitan", next(iter(reading.origins.values())))
    return reading


def _megatron(command: _Command) -> Reading | None:
    reading = Reading(command.options, command.notes)
    count = sum(reading.has(name) for name in megatron.OWN)
    script = any(name.startswith(("pretrain_", "posttrain_")) for name in command.names)
    if count < (1 if script else 3) and not reading.has(*megatron.SURE):
        return None
    megatron.read(reading, command.job)
    origin = reading.origin(*megatron.OWN, *megatron.SURE)
    reading.put("framework", _kind(reading, command.job), origin)
    if "train" not in reading.values:
        reading.put("train", "full", origin)
    if huggingface.runs_deepspeed(reading):
        huggingface.read(reading, command.job)
    return reading


def _trainer(command: _Command) -> Reading | None:
    """Read what the Trainer, TRL, DeepSpeed or a script like theirs is given."""
    options = command.options
    program = next((name for name in command.names if name.endswith(".py") or name == "trl"), "")
    name = command.file(command.positional(program)[:2], "config")
    own = any(key in options for key in (*huggingface.OWN, "deepspeed"))
    if not own and not (program and name.endswith(_CONFIGS)):
        return None
    reading = Reading(_with_file(command, name), command.notes)
    if not reading.has(*huggingface.OWN, "deepspeed"):
        # Any program may take a file of any settings.
        return None
    flag = options.get("deepspeed")
    bare = flag is not None and (flag.text == "" or not reading.has(*huggingface.OWN))
    return _trained(
        reading, command, "deepspeed" if bare or "deepspeed_config" in options else "hf"
    )


def _trained(reading: Reading, command: _Command, framework: str) -> Reading:
    """Read the Trainer's options, with Accelerate's file below them."""
    file = command.options.get("config_file")
    if "accelerate" in command.names and file is not None and file.text:
        below = _Command(command.words, {}, command.job, command.notes)
        reading.options = {
            **huggingface.accelerate(_with_file(below, file.text)),
            **reading.options,
        }
    huggingface.read(reading, command.job)
    names = ("deepspeed", "deepspeed_config", *huggingface.OWN)
    origin = reading.origin(*names) or command.words[0].origin
    if framework == "hf" and (place := huggingface.fsdp(reading, command.is_bare("--fsdp"))):
        framework, origin = "hf-fsdp", place
    reading.put("framework", framework, origin)
    return reading
