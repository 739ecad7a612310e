#compdef chappe
# zsh completion for chappe. A file `_chappe` in a directory of $fpath, or `source <(chappe completions zsh)` behind compinit.
_chappe() {
    local -a out
    out=("${(@f)$(${words[1]} complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    case $out[1] in
        ':command '*)
            local -i at=${out[1]#:command }
            shift $((at + 1)) words
            ((CURRENT -= at + 1))
            _normal
            ;;
        ':files') _files ;;
        '') ;;
        *) compadd -- "${(@)out}" ;;
    esac
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    _chappe "$@"
else
    compdef _chappe chappe
fi
