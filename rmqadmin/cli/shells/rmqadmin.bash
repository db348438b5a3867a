# bash completes rmqadmin's lines with what `rmqadmin completion --at LINE` says: a word, a tab and its help a line.
_rmqadmin() {
    local line=${COMP_LINE:0:COMP_POINT} whole found
    whole=${line##*[[:space:]]}
    mapfile -t found < <("$1" -o table completion --at "$line" 2>/dev/null)
    found=("${found[@]%%$'\t'*}")
    # bash replaces only what is behind the last of its word breaks, as in --output=json and 127.0.0.1:10911
    COMPREPLY=("${found[@]#"${whole%"${whole##*["$COMP_WORDBREAKS"]}"}"}")
    if [[ ${COMPREPLY[0]-} == */ ]]; then compopt -o nospace; fi
}
complete -F _rmqadmin rmqadmin
