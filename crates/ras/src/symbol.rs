//! Names for sections, so that debuggers and profilers show where one is: `chappe_ras_NAME_1`, `_2` and so on, a symbol of its own for
//! each copy that the compiler makes.

/// The directives that name what lies between two labels that follow: to stand within an `asm!` block.
macro_rules! symbol {
    ($name:literal, $from:literal, $to:literal) => {
        concat!(
            ".ifndef .Lchappe_ras_",
            $name,
            "\n.set .Lchappe_ras_",
            $name,
            ", 0\n.endif\n.set .Lchappe_ras_",
            $name,
            ", .Lchappe_ras_",
            $name,
            " + 1\n.altmacro\n.macro chappe_ras_symbol n\n.set chappe_ras_",
            $name,
            "_\\n, ",
            $from,
            "f\n.type chappe_ras_",
            $name,
            "_\\n, %function\n.size chappe_ras_",
            $name,
            "_\\n, (",
            $to,
            "f - ",
            $from,
            "f)\n.endm\nchappe_ras_symbol %.Lchappe_ras_",
            $name,
            "\n.purgem chappe_ras_symbol\n.noaltmacro"
        )
    };
}
pub(crate) use symbol;
