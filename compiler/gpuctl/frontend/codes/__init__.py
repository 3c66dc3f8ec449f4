"""Every diagnostic code with its meaning, its reason, the remedy, and the smallest document that triggers it.

Codes are stable: 0xx reading, 1xx documents, 2xx fields, 3xx references between values, 4xx checks across documents,
5xx command lines, 6xx platform and output, 9xx gpuctl itself. In an example ``#!`` marks the line of the diagnostic.
"""

from __future__ import annotations

from gpuctl.frontend.codes.code_rule import CodeRule
from gpuctl.frontend.codes.command_codes import COMMAND_CODES
from gpuctl.frontend.codes.input_codes import INPUT_CODES
from gpuctl.frontend.codes.linker_codes import LINKER_CODES
from gpuctl.frontend.codes.output_codes import OUTPUT_CODES
from gpuctl.frontend.codes.value_codes import VALUE_CODES

__all__ = ["CODES", "CodeRule"]

CODES: dict[str, CodeRule] = {
    rule.code: rule
    for rule in sorted(
        (*INPUT_CODES, *VALUE_CODES, *LINKER_CODES, *COMMAND_CODES, *OUTPUT_CODES), key=lambda rule: rule.code
    )
}
"""The rules by code, in the order of the codes."""
