"""A set of brokers and its controller in one process, on a simulated network, clock and disk. Everything that happens
is drawn from a seed, and a seed always gives the same history. ``python -m tests.simulation --seed N`` prints it;
``make simulate`` checks thousands of seeds a minute.

The simulation runs the product's own code, with all of its tasks, from copies of its modules (``product.py``); no rule
is written a second time here:

- the controller: ``Controller`` with its scans, ``Decider``, ``LiveBrokers``, elections, changes of the in-sync set and
  registrations (``check`` and ``apply``), ``EventLog`` with its snapshots; requests and answers are real frames;
- a broker's part in its set: ``SetMember`` (id, heartbeats, role changes, fencing, cutting), ``MasterLease``,
  ``SyncSet``, ``SetWatch`` (joining and leaving brokers), ``ControllerGroup``, ``LeaderQuestions``, ``MemberRequests``
  (refusals), the files of its identity and its epochs, and where logs part (``EpochList.parting``);
- replication: ``SetMaster``, ``SetLink`` and ``SetSlave`` with the bytes that they exchange, ``Confirmation`` (what
  readers see), and ``PendingPuts`` (when producers are answered).

What is modelled, and why:

- trio and time (``tasks.py``, ``clocks.py``): trio has one clock and draws its own order; here each machine has a clock
  and may freeze, and everything is drawn from the seed;
- sockets (``network.py``), because they are the network;
- the store around the log (``stored_log.py``): a record is 24 bytes, a start finds the log's end, and a slave shows
  complete records. The real store takes milliseconds to open, and ``tests/crash`` simulates its crashes. The small
  files are on the disk of ``tests/crash``, which knows what a crash leaves;
- the ``Broker`` and the server around all this (``broker.py``): opening a role, and passing a put to ``PendingPuts``;
- etcd (``etcd.py``), for several controllers: ``QuorumStore`` is the product's, with its lease and its transactions;
  etcd as a whole is one machine with its own clock, and forgets nothing.

``faults.py`` has the faults, ``ledger.py`` the invariants that must hold in spite of them, and ``variants.py`` the
broken rules that the simulation must detect.
"""
