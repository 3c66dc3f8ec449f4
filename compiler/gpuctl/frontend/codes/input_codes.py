"""Codes of reading (0xx) and of documents (1xx)."""

from __future__ import annotations

from gpuctl.frontend.codes.code_rule import CodeRule

INPUT_CODES = (
    CodeRule(
        "GPU001",
        "error",
        "unreadable input",
        "A file or directory cannot be read: it does not exist, permission is denied, or it is not a file.",
        "Check the path. A directory is searched for *.yaml and *.yml below it.",
    ),
    CodeRule(
        "GPU002",
        "error",
        "not UTF-8 text",
        "Documents are UTF-8 text. The file holds other bytes, or control characters that YAML does not allow.",
        "Save the file as UTF-8. Write a control character as an escape in double quotes.",
        'kind: "\x07"  #!\n',
    ),
    CodeRule(
        "GPU003",
        "error",
        "too large",
        "An input may have 8 MiB, and a document 250,000 values. A larger file is nearly always named by mistake.",
        "Split it into several files or documents, or name a directory.",
    ),
    CodeRule(
        "GPU004",
        "error",
        "not YAML",
        "The text is not valid YAML, so nothing after this place can be read with certainty. Other documents "
        "of the file are still checked.",
        "Look at the line named and the one above it: an indentation, a quote or a `:` is usually missing or too many.",
        "kind: training: x  #!\n",
    ),
    CodeRule(
        "GPU005",
        "error",
        "tab used for indentation",
        "YAML forbids tabs in indentation, because editors show them in different widths.",
        "Replace tabs by spaces: `expand -t2 FILE`.",
        "job:\n\tname: demo  #!\n",
    ),
    CodeRule(
        "GPU006",
        "error",
        "key twice in one mapping",
        "A mapping has each key once. Most YAML readers silently keep the last; gpuctl does not guess.",
        "Remove one of the two.",
        "kind: compute\nversion: v0.1\njob: {name: demo}\nenvironment:\n  image: app:1\n  image: app:2  #!\n",
    ),
    CodeRule(
        "GPU007",
        "error",
        "alias that cannot be expanded",
        "`*name` repeats what `&name` marked earlier in the same document. This one refers to nothing, to itself, or "
        "expands "
        "to more than 100,000 values.",
        "Define the anchor before the alias, or write the values out.",
        "job: *missing  #!\n",
    ),
    CodeRule(
        "GPU008",
        "error",
        "nested too deeply",
        "Documents may be nested 64 levels deep; no field of the language needs ten.",
        "Flatten the document.",
        "a: " + "[" * 70 + "  #!\n",
    ),
    CodeRule(
        "GPU009",
        "error",
        "no document",
        "The file is empty or holds only comments.",
        "Start from `gpuctl init training`.",
        "# nothing here\n",
    ),
    CodeRule(
        "GPU010",
        "error",
        "YAML tag",
        "A `!tag` asks for a type of another program; only `!!str` has a meaning here.",
        "Remove the tag, or quote the value if the `!` is text.",
        "kind: !custom training  #!\n",
    ),
    CodeRule(
        "GPU011",
        "note",
        "file that is not read",
        "In a directory, *.yaml and *.yml are read. This is a file of another name that holds a document, a link to a "
        "directory or out of the repository, a pipe, or a submodule that is not checked out. Its documents do not "
        "exist for gpuctl, so `--prune` refuses to delete anything while it is there.",
        "Rename the file, name it or the linked directory itself, or remove it; `--allow-skipped` passes it over.",
    ),
    CodeRule(
        "GPU012",
        "note",
        "file without a document, in a directory",
        "The file is empty or holds only comments. Perhaps it was emptied by mistake, so `--prune` refuses to delete "
        "anything while it is there.",
        "Restore its documents, or remove the file; `--allow-skipped` passes it over.",
    ),
    CodeRule(
        "GPU013",
        "error",
        "directory without documents",
        "A directory that was named holds no *.yaml or *.yml file, at no depth.",
        "Name a file or another directory.",
    ),
    CodeRule(
        "GPU014",
        "warning",
        "full-width punctuation",
        'A Chinese or Japanese keyboard writes `：`, `，` and `“` where YAML needs `:`, `,` and `"`. YAML takes '
        "them for "
        "text. In a command, and where the document cannot be read because of them, this is an error.",
        "Write the ASCII character, or quote the text if the full-width one is meant.",
        "kind: compute\nversion: v0.1\njob: {name: demo}\nenvironment: {image: app:1, env: {GREETING: “hi”}}  #!\n",
    ),
    CodeRule(
        "GPU030",
        "error",
        "too many problems",
        "At most 100 problems of a file are shown, errors first. The rest is counted, as a warning if it has no error.",
        "Correct those that are shown, and run the command again.",
    ),
    CodeRule(
        "GPU101",
        "error",
        "document without kind",
        "`kind` is the type of a document: training, inference, notebook, compute, pool, quota or platform.",
        "Add `kind:` as the first line.",
        "version: v0.1  #!\n",
    ),
    CodeRule(
        "GPU102",
        "error",
        "unknown kind",
        "This kind of document does not exist. A Kubernetes manifest needs no compiling.",
        "Use one of the kinds; `gpuctl explain` lists them.",
        "kind: trainning  #!\nversion: v0.1\n",
    ),
    CodeRule(
        "GPU103",
        "warning",
        "document without version",
        "`version` is the version of the language that a document is written in; v0.1 is assumed.",
        "Add `version: v0.1`.",
        "kind: compute  #!\njob: {name: demo}\nenvironment: {image: app:1}\n",
    ),
    CodeRule(
        "GPU104",
        "error",
        "unknown version",
        "This gpuctl supports version v0.1 of the language.",
        "Write `version: v0.1`.",
        "kind: compute\nversion: v9  #!\njob: {name: demo}\nenvironment: {image: app:1}\n",
    ),
    CodeRule(
        "GPU105",
        "note",
        "document of another tool",
        "A directory may contain other YAML. A document with an `apiVersion` and a `kind` of another tool is "
        "skipped; a file that is named directly must contain gpuctl documents.",
        "Nothing to do.",
    ),
    CodeRule(
        "GPU106",
        "error",
        "document that is not a mapping",
        "A document is a mapping of `key: value` lines that starts with `kind:`.",
        "Start the document with `kind:`.",
        "- kind: training  #!\n",
    ),
    CodeRule(
        "GPU107",
        "note",
        "document whose owner is unclear",
        "A directory may contain other YAML, which is skipped. This document has neither one of gpuctl's "
        "kinds nor the `apiVersion` and `kind` of a Kubernetes manifest, so it may be a gpuctl document with "
        "a mistake: `--prune` refuses to delete anything while it is there.",
        "Correct its `kind`, or move it elsewhere; `--allow-skipped` passes it over.",
    ),
    CodeRule(
        "GPU111",
        "error",
        "unknown profile",
        "`--profile` names a profile that a document with profiles does not have, or that no document has. A document "
        "without `profiles` is compiled as written.",
        "Correct the name, or add the profile; `NAME: {}` changes nothing.",
    ),
    CodeRule(
        "GPU112",
        "error",
        "field that cannot be overridden",
        "`kind`, `version` and `job.name` identify a document: neither a profile nor `--with` can change them. A "
        "profile has no `profiles`.",
        "Remove the field, or write another document.",
        "kind: compute\nversion: v0.1\njob: {name: demo}\nenvironment: {image: app:1}\n"
        "profiles:\n  prod:\n    job:\n      name: other  #!\n",
    ),
    CodeRule(
        "GPU113",
        "error",
        "invalid override",
        "`--with` takes `PATH=VALUE`, or `JOB:PATH=VALUE` if there are several jobs. Lists are replaced as a whole.",
        "Write for example `--with resources.gpu=8` or `--with train:resources.gpu=8`.",
    ),
    CodeRule(
        "GPU114",
        "note",
        "overridden for this run",
        "`--with` gives a field another value than the file, for this run only. `gpuctl history` lists it.",
        "`gpuctl set FILE PATH=VALUE` changes the file, if the value is to stay.",
    ),
)
