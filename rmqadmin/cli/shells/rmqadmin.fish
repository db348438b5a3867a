# fish completes rmqadmin's lines with what `rmqadmin completion --at LINE` says: a word, a tab and its help a line.
complete -c rmqadmin -f -a '(rmqadmin -o table completion --at (commandline -cp | string collect) 2>/dev/null)'
