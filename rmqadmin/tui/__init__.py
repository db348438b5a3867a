"""The live dashboard: ``rmqadmin tui``. Nothing but that command imports this package, because Textual takes 175 ms.

Folders mirror the screen: ``screens`` (one a noun), ``dialogs`` (which ask before they change something), ``widgets``
(their parts). ``sources`` asks the servers and knows no Textual, ``memory`` keeps what they said before. ``refresh``
runs the sources in threads, so that keys never wait."""
