//! What commands print with `--json`: the fields of those that have many. The others' help has them.

/// The end of its help.
pub const END: &str = "\
ls:
  [OBJECT], where OBJECT is one of
    {\"name\": TEXT, \"arena\": TEXT, \"kind\": \"pool\", \"permits\": N, \"free\": N,
      \"held\": N, \"waiting\": N}; if by priority, also \"by_priority\": {\"aging_ms\": N or null}
    {\"name\": TEXT, \"arena\": TEXT, \"kind\": \"semaphore\", \"value\": N,
      \"barging\": BOOL, \"waiting\": N}; the same
    {\"name\": TEXT, \"arena\": TEXT, \"kind\": \"mutex\", \"holder\": MEMBER or null,
      \"torn\": BOOL, \"condemned\": BOOL, \"bytes\": N, \"waiting\": N}
    {\"name\": TEXT, \"arena\": TEXT, \"kind\": \"readers-writer lock\", \"writer\": MEMBER or null,
      \"readers\": [MEMBER], \"kept_for\": [JOB] (of holders that are gone), \"torn\": BOOL,
      \"condemned\": BOOL, \"bytes\": N, \"waiting\": N}
    {\"name\": TEXT, \"arena\": TEXT, \"kind\": \"condition variable\", \"waiting\": N}
    {\"name\": TEXT, \"arena\": TEXT, \"kind\": \"barrier\", \"parties\": N, \"arrived\": N, \"joined\": N,
      \"dead\": N, \"rounds\": N, \"broken\": BOOL, \"breaks_on_death\": BOOL, \"waiting\": N}
    {\"name\": TEXT, \"arena\": TEXT, \"kind\": \"tube\", \"ends\": \"spsc\", \"mpsc\", \"spmc\" or \"mpmc\",
      \"messages\": N, \"slots\": N, \"size\": N, \"sent\": N, \"received\": N, \"senders\": N,
      \"receivers\": N, \"redelivered\": N, \"dropped\": N, \"drops\": BOOL, \"sealed\": BOOL,
      \"waiting\": N}
    {\"name\": TEXT, \"arena\": TEXT, \"kind\": \"map\", \"used\": N, \"entries\": N, \"key_size\": N,
      \"value_size\": N, \"bytes\": N, \"waiting\": N}
    {\"name\": TEXT, \"arena\": TEXT, \"kind\": \"stack\", \"counter\", \"words\", \"server\",
      \"helping lock\" or \"monitor\", \"value\": N, \"capacity\": N, \"size\": N, \"bytes\": N, \"waiting\": N}
    {\"name\": TEXT, \"arena\": null, \"kind\": \"terminal\", \"waiting\": 0, and what `chappe term ls` has}
    {\"name\": TEXT, \"arena\": TEXT, \"kind\": TEXT, \"damaged\": TEXT, \"waiting\": N}
  and MEMBER is {\"pid\": N, \"tid\": N, \"label\": TEXT}, and \"pid_namespace\": N (its inode) where
  the numbers are those of another PID namespace; on an engine
    {\"name\": TEXT, \"kind\": \"pool\", \"permits\": N, \"held\": N, \"waiting\": N}

show:
  of a terminal what `chappe term show` says; else what `ls` says of it, and
    \"waiters\": [{\"place\": N, \"pid\": N, \"tid\": N, \"label\": TEXT, \"waiting_ms\": N}],
    of a pool also
    \"holders\": [{\"permit\": TEXT, \"index\": N, \"pid\": N, \"tid\": N, \"label\": TEXT,
      \"held_ms\": N, \"held_exact\": BOOL, \"leased\": BOOL, \"orphan\": BOOL, \"set_aside\": BOOL}],
      and where it applies \"job_pids\": [N] (\"pid\" is then chappe's),
      \"pid_namespace\": N, \"unseen\": {\"pid\": N,
      \"pid_namespace\": N, \"uid\": N or null, \"label\": TEXT, \"why\": TEXT}
    of a readers-writer lock also, if `chappe lock` has it for jobs,
    \"jobs\": [JOB], all of them; a JOB is
      {\"shared\": BOOL, and of a process of it \"pid\": N, \"tid\": N, \"label\": TEXT,
      or \"unseen\" as above}
    of a tube also (\"waiters\" are those for a message)
    \"sending\": [MEMBER], \"receiving\": [MEMBER], \"waiters_for_room\": [as \"waiters\"],
    and with --interval
    \"rates\": {\"interval_ms\": N, \"sent_per_s\": N, \"received_per_s\": N}
    of a pool on an engine
    \"holders\": [{\"index\": N, \"host\": TEXT, \"pid\": N, \"label\": TEXT, \"token\": N,
      \"lease_seconds\": N or null}],
    \"waiters\": [{\"host\": TEXT, \"pid\": N, \"label\": TEXT, \"wants\": N, \"pools\": [TEXT]}]

doctor:
  {\"directory\": TEXT,
    \"arenas\": [{\"name\": TEXT, \"error\": TEXT or null, \"findings\": [FINDING],
      \"capacity\": {\"members\": N, \"members_used\": N, \"objects\": N, \"objects_used\": N,
        \"cells\": N, \"cells_used\": N, \"data\": N, \"data_used\": N} or null}],
    \"around\": [FINDING], \"unseen\": N (processes), \"job_servers_removed\": [PATH],
    \"terminals\": N, \"terminal_findings\": [FINDING], \"kernel\": [FINDING],
    \"sequences\": {\"used\": BOOL, \"verdict\": VERDICT, \"why\": TEXT, \"area\": \"library\", \"own\"
      or null, \"fence\": BOOL, \"concurrency_ids\": BOOL, \"biases\": BOOL,
      \"mechanism\": sequence, biased, interlocked, system-call or null (CHAPPE_RAS in the
      environment names one that is not there), \"mechanism_why\": TEXT} or null (took too long),
    \"files\": {\"ring\": BOOL, \"way\": TEXT} or null, \"queries\":
      {\"machine_code\": BOOL, \"way\": TEXT} or null}
  where VERDICT is proven, no-area, no-fence, unproven, broken, switched-off (by
    CHAPPE_SEQUENCES=off in the environment; CHAPPE_BIAS=off switches biases off alone)
    or architecture; FINDING is
    {\"kind\": KIND, \"what\": TEXT, \"done\": TEXT or null, \"advice\": TEXT or null}
  and KIND in an arena is dead-member, lost-member, stuck-member, elsewhere,
    orphan-permit, kept-lock, ended-job, nobodys, leaked-cells, leaked-data, leaked-object,
    lost-name, condemned-mutex, torn-mutex, kept-slots, removed-in-use, damaged, full,
    changing, not-a-member or other-version; around them unlinked-arena, removed-arena,
    unnamed-arena, directory-locked, lease-file or stray-file; of the kernel no-futex-waitv,
    no-pidfd or no-proc; of terminals terminal-unusable, terminal-unbegun, terminal-keeper,
    terminal-unknown, terminal-holders or terminal-left
  of an engine
  {\"engine\": TEXT, \"members\": [{\"endpoint\": TEXT, \"version\": TEXT or null,
    \"error\": TEXT or null, \"leader\": BOOL, \"bytes\": N or null, \"quota\": N or null,
    \"took_ms\": N or null, \"alarms\": [TEXT]}],
    \"read_ms\": N or null, \"lease_ms\": N or null, \"findings\": [FINDING]}
  where KIND is unreachable, old-engine, no-leader, nearly-full, alarm or unusable

errors, on stderr:
  {\"error\": TEXT}; if the exit status is not 1 {\"error\": TEXT, \"status\": N}";
