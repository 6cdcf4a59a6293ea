"""honcho that waits a minute for its processes: `python -m tests.acceptance.patient_honcho start`.

Unpatched, honcho kills processes that have not ended after 5 s, which can be too short on a busy machine. The test
checks that every process ends without SIGKILL, however slow the machine is.
"""

import honcho.manager
from honcho.command import main

if __name__ == "__main__":
    honcho.manager.KILL_WAIT = 60
    main()
