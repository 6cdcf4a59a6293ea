"""Administration on the command line: `flask --app app ...`.

`app.web.application` adds the commands of the kernel and of the features to the application. Without a valid
configuration it has nothing else: `--help` lists them, and those that need no database work.
"""
