"""honcho that waits a minute for its processes: `python -m tests.acceptance.patient_honcho start`.

honcho kills what has not ended after 5 s. Whether that is enough depends on the machine and what else it does; whether
everything ends by itself does not.
"""

import honcho.manager
from honcho.command import main

if __name__ == "__main__":
    honcho.manager.KILL_WAIT = 60
    main()
