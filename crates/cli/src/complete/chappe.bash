# bash completion for chappe. `source <(chappe completions bash)`, or a file in share/bash-completion/completions.
_chappe() {
    local cur words cword out first
    if declare -F _get_comp_words_by_ref >/dev/null; then
        # Names may have colons, and options an equals sign.
        _get_comp_words_by_ref -n =: cur words cword
    else
        words=("${COMP_WORDS[@]}") cword=$COMP_CWORD cur=${COMP_WORDS[COMP_CWORD]}
    fi
    COMPREPLY=()
    mapfile -t out < <("${words[0]}" complete -- "${words[@]:1:cword}" 2>/dev/null)
    first=${out[0]-}
    case $first in
        ':command '*)
            local at=$((${first#:command } + 1))
            if declare -F _command_offset >/dev/null; then
                _command_offset "$at"
            elif ((cword == at)); then
                mapfile -t COMPREPLY < <(compgen -c -- "$cur")
            else
                mapfile -t COMPREPLY < <(compgen -f -- "$cur")
            fi
            ;;
        ':files') mapfile -t COMPREPLY < <(compgen -f -- "$cur") ;;
        *)
            COMPREPLY=("${out[@]}")
            if declare -F __ltrim_colon_completions >/dev/null; then
                __ltrim_colon_completions "$cur"
            fi
            ;;
    esac
}
complete -F _chappe chappe
