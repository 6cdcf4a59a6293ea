/* Lease and fence, for the model checker Spin: one execution, two workers, two schedulers, a user who cancels.
 *
 * Each step is one statement of app/queue/executions (so atomic), or one thing that a process does by itself. A worker may be
 * frozen between any two steps or die at any; a lease may run out at any instant; what a worker sent to the database
 * arrives late, twice, or never; a scheduler acts on what it read long ago. `./check` searches every order of steps,
 * then takes away one rule after the other (NO_...) and writes what it found to result.txt.
 */

#define WORKERS 2
#define SCHEDULERS 2
#define MAX_ATTEMPTS 2
#define MOST_CLAIMS 4 /* a hand-back spends no attempt: without a bound there would be no end */

#ifdef NO_FENCE
#define NO_FENCE_WORKER
#define NO_FENCE_ATTEMPT
#define NO_FENCE_INSTANT
#endif
#ifdef NO_FENCE_WORKER
#define SAME_WORKER(c) true
#else
#define SAME_WORKER(c) (row_worker == claim_worker[c])
#endif
#ifdef NO_FENCE_ATTEMPT
#define SAME_ATTEMPT(c) true
#else
#define SAME_ATTEMPT(c) (attempts == claim_attempt[c])
#endif
#ifdef NO_FENCE_INSTANT
#define SAME_INSTANT(c) true
#else
#define SAME_INSTANT(c) (row_claim == c)
#endif
#ifdef NO_FENCE_STATUS
#define IS_RUNNING true
#else
#define IS_RUNNING (status == RUNNING)
#endif
#ifdef NO_LEASE_TO_CLAIM
#define MAY_CLAIM(w) true
#else
#define MAY_CLAIM(w) lease[w]
#endif
#ifdef NO_SECOND_LOOK
#define IS_LOST true /* reclaim trusts the candidate that was read before */
#else
#define IS_LOST (!lease[row_worker])
#endif
#ifdef NO_LOST_LEASE_TO_RECLAIM
#undef IS_LOST
#define IS_LOST true
#define LOOKS_LOST true
#else
#define LOOKS_LOST (!lease[row_worker])
#endif

#ifdef NO_SECOND_CHANCE
#define SECOND_CHANCE false
#else
#define SECOND_CHANCE (attempts == most_attempts && !cancel_requested) /* may have sent nothing */
#endif

mtype = { PENDING, QUEUED, RUNNING, SUCCESS, FAILED, CANCELLED };
mtype = { NOTHING, OK, ERROR, HAND_BACK };

/* The database: the row of the execution, the leases, and how many rows `attempts` has. */
mtype status = PENDING;
byte row_worker, row_claim; /* the claim stands for `started_at`, which no two claims share */
byte attempts, most_attempts = MAX_ATTEMPTS;
bool cancel_requested, was_lost; /* was_lost: `attempts` has a lost worker */
bool lease[WORKERS] = true;
byte recorded;

/* The processes: what each has in hand, and what is on its way to the database, by number of claim. */
byte claims;
byte claim_worker[MOST_CLAIMS + 1], claim_attempt[MOST_CLAIMS + 1];
mtype mail[MOST_CLAIMS + 1] = NOTHING;
byte hand[WORKERS];
bool has_sent[WORKERS];

/* For the invariants only. */
bool was_sent[MOST_CLAIMS + 1], is_told[MOST_CLAIMS + 1];
byte sends[MAX_ATTEMPTS + 2];

#define IS_FINAL (status == SUCCESS || status == FAILED || status == CANCELLED)
#define NEXT (cancel_requested -> CANCELLED : QUEUED)
#define HOLDS(c) (IS_RUNNING && SAME_WORKER(c) && SAME_ATTEMPT(c))

inline record() {
    recorded++;
    assert(recorded == attempts); /* attempt numbers have no gap and none is used twice */
    is_told[row_claim] = true
}

inline conclude(c) { /* app/queue/executions/completion.py */
    assert(!IS_FINAL);
    assert(row_claim == c); /* no write of a stale claim takes effect */
    record();
    status = (mail[c] == OK -> SUCCESS : (attempts == most_attempts -> FAILED : NEXT))
}

inline release(c) { /* app/queue/claiming/release.py */
    assert(!IS_FINAL);
    assert(row_claim == c);
    attempts--;
    status = NEXT
}

inline end_claim(w, how) {
    printf("worker %d ends claim %d as %e\n", w, hand[w], how);
    mail[hand[w]] = how;
    hand[w] = 0;
    has_sent[w] = false
}

inline arrive() {
    printf("%e of claim %d arrives\n", mail[c], c);
    if
    :: mail[c] == HAND_BACK -> release(c)
    :: else -> conclude(c)
    fi
}

inline claim(w) { /* app/queue/claiming/claim.py */
    assert(lease[w]);
    claims++;
    attempts++;
    row_worker = w;
    row_claim = claims;
    status = RUNNING;
    claim_worker[claims] = w;
    claim_attempt[claims] = attempts;
    printf("worker %d makes claim %d, attempt %d\n", w, claims, attempts)
}

#define CAN_CLAIM(w) (status == QUEUED && MAY_CLAIM(w) && !hand[w] && attempts < most_attempts && claims < MOST_CLAIMS)

proctype worker(byte w) {
    byte number;
    do
    :: d_step { CAN_CLAIM(w) -> claim(w); hand[w] = claims }
    :: d_step { CAN_CLAIM(w) -> claim(w); printf("... and the answer is lost\n") }
    :: d_step { /* what the database says it holds and it has not goes back as a stray */
        status == RUNNING && row_worker == w && !hand[w] && mail[row_claim] == NOTHING ->
            printf("worker %d hands stray claim %d back\n", w, row_claim);
            mail[row_claim] = HAND_BACK
       }
    :: d_step {
        hand[w] && !has_sent[w] ->
            printf("worker %d hands claim %d back\n", w, hand[w]);
            mail[hand[w]] = HAND_BACK;
            hand[w] = 0
       }
    :: d_step {
        hand[w] && !has_sent[w] ->
            printf("worker %d sends for claim %d\n", w, hand[w]);
            has_sent[w] = true;
            was_sent[hand[w]] = true;
            number = claim_attempt[hand[w]];
            sends[number]++;
            assert(sends[number] == 1) /* one attempt is one send at most */
       }
    :: d_step { hand[w] && has_sent[w] -> end_claim(w, OK) }
    :: d_step { hand[w] && has_sent[w] -> end_claim(w, ERROR) }
    :: d_step { /* it dies, or learns that its lease is over */
        printf("worker %d is gone\n", w);
        hand[w] = 0;
        has_sent[w] = false
       } -> break
#ifdef NO_END_OF_LEASES
    :: d_step { /* app/kernel/processes/worker_lease.py renews what is over */
        !lease[w] -> printf("worker %d renews its lease\n", w); lease[w] = true
       }
#endif
    od
}

proctype scheduler() {
    byte candidate; /* an attempt number, as read before the statement that acts */
    do
    :: d_step { status == PENDING -> printf("promoted\n"); status = QUEUED } /* app/queue/executions/promotion.py */
    :: d_step {
        status == RUNNING && LOOKS_LOST && !candidate ->
            printf("a scheduler sees attempt %d of worker %d, lost\n", attempts, row_worker);
            candidate = attempts
       }
    :: d_step { /* app/queue/executions/reclaim.py */
        candidate ->
            if
            :: status == RUNNING && attempts == candidate && IS_LOST ->
                printf("it takes claim %d back\n", row_claim);
                assert(!lease[row_worker]); /* nobody takes what the living hold */
                record();
                if
                :: !was_lost && SECOND_CHANCE -> most_attempts++
                :: else
                fi;
                status = (attempts == most_attempts -> (cancel_requested -> CANCELLED : FAILED) : NEXT);
                assert(status != FAILED || was_lost); /* the first lost worker fails nothing */
                assert(most_attempts <= MAX_ATTEMPTS + 1);
                was_lost = true
            :: else
            fi;
            candidate = 0
       }
    od
}

/* What was sent arrives, at any time and any number of times; where the fence refuses it, nothing changes. */
proctype network() {
    byte c;
    do
    :: d_step { mail[1] != NOTHING && HOLDS(1) && (mail[1] != HAND_BACK || SAME_INSTANT(1)) -> c = 1; arrive() }
    :: d_step { mail[2] != NOTHING && HOLDS(2) && (mail[2] != HAND_BACK || SAME_INSTANT(2)) -> c = 2; arrive() }
    :: d_step { mail[3] != NOTHING && HOLDS(3) && (mail[3] != HAND_BACK || SAME_INSTANT(3)) -> c = 3; arrive() }
    :: d_step { mail[4] != NOTHING && HOLDS(4) && (mail[4] != HAND_BACK || SAME_INSTANT(4)) -> c = 4; arrive() }
    od
}

proctype user() { /* app/queue/executions/execution_cancellation.py */
    do
    :: d_step { status == PENDING || status == QUEUED -> printf("cancelled\n"); status = CANCELLED } -> break
    :: d_step { status == RUNNING -> printf("asked to be cancelled\n"); cancel_requested = true } -> break
    od
}

proctype time() {
    do
    :: d_step { lease[0] -> printf("the lease of worker 0 is over\n"); lease[0] = false }
    :: d_step { lease[1] -> printf("the lease of worker 1 is over\n"); lease[1] = false }
    od
}

proctype invariants() {
end:
    do
    :: d_step { hand[0] && hand[1] && lease[0] && lease[1] -> assert(false) } /* one live claim */
    :: d_step { recorded != attempts - (status == RUNNING -> 1 : 0) -> assert(false) }
    :: d_step { IS_FINAL && (was_sent[1] && !is_told[1] || was_sent[2] && !is_told[2] || was_sent[3] && !is_told[3]
                             || was_sent[4] && !is_told[4]) -> assert(false) } /* every send has its attempt */
    :: timeout -> /* nothing can happen any more: no execution is left behind as RUNNING or PENDING */
        assert(status != RUNNING && status != PENDING);
        break
    od
}

init {
    atomic {
        run worker(0); run worker(1); run scheduler(); run scheduler(); run network(); run user(); run time();
        run invariants()
    }
}
