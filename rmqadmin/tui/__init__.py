"""The live dashboard: ``rmqadmin tui``. Only that command imports this package, because Textual is slow to import.

Folders mirror the screen: ``screens`` (one for each noun), ``dialogs`` (which ask before they change something),
``widgets`` (the parts of both). ``sources`` asks the servers without any Textual, and ``memory`` keeps their earlier
answers. ``refresh`` runs the sources in threads, so that keys never wait."""
