"""The dashboard in a browser: ``rmqadmin tui --serve``. Nothing else imports this package, which needs the extra
``[serve]``."""
