"""Administration on the command line: `flask --app app ...`.

`app.web.application` adds the commands of the kernel and of the features to the application, also
without a valid configuration, so that `--help` and commands without a database work.
"""
