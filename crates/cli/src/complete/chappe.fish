# fish completion for chappe. A file `chappe.fish` in a directory of completions, or `chappe completions fish | source`.
function __chappe_complete
    set -l words (commandline -opc) (commandline -ct)
    set -l out ($words[1] complete -- $words[2..-1] 2>/dev/null)
    if string match -q ':command *' -- $out[1]
        set -l at (math (string replace ':command ' '' -- $out[1]) + 2)
        if test $at -gt (count $words)
            return
        end
        complete -C (string join ' ' -- (string escape -- $words[$at..-2]) $words[-1])
    else if test "$out[1]" = ':files'
        __fish_complete_path $words[-1]
    else
        printf '%s\n' $out
    end
end
complete -c chappe -f -a '(__chappe_complete)'
