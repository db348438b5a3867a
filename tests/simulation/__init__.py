"""A set of brokers and its controller in one process, on a simulated network, clock and disk: what happens is drawn
from a seed, and a seed always gives the same history. ``python -m tests.simulation --seed N`` prints it; ``make
simulate`` checks thousands of seeds a minute.

What runs is the product's own code, with all of its tasks, from copies of its modules (``product.py``); no rule is
written a second time here:

- the controller: ``Controller`` with its scans, ``Decider``, ``LiveBrokers``, elections, changes of the in-sync set and
  registrations (``check`` and ``apply``), ``EventLog`` with its snapshots; requests and answers are real frames;
- a broker's part in its set: ``SetMember`` (id, heartbeats, role changes, fencing, cutting), ``MasterLease``,
  ``SyncSet``, ``SetWatch`` (who joins and who leaves), ``ControllerGroup``, ``LeaderQuestions``, ``MemberHandlers``
  (what is refused), the files of its identity and its epochs, and where logs part (``EpochList.parting``);
- replication: ``SetMaster``, ``SetLink``, ``SetSlave`` with the bytes of their wire, ``Confirmation`` (what
  readers see), and ``PendingPuts`` (when a producer is told what).

What is modelled, and why:

- trio and time (``tasks.py``, ``clocks.py``): trio has one clock and draws its order by itself; here each machine has a
  clock, may freeze, and everything is drawn from the seed;
- sockets (``network.py``), because they are the network;
- the store around the log (``stored_log.py``): a record is 24 bytes, a start finds the log's end, and a slave shows
  what is whole. The real one takes milliseconds to open, and has its own simulation of crashes in ``tests/crash``. The
  small files are on the disk of that one, which knows what a crash leaves;
- the ``Broker`` and the server around all this (``broker.py``): opening a role, and a put's way to ``PendingPuts``;
- etcd (``etcd.py``), where several controllers stand behind it: ``QuorumStore`` is the product's, with its lease and
  its transactions; etcd as a whole is one machine with a clock of its own, which forgets nothing.

Beside it (``acting.py``, ``--acting``) is a master without controllers whose slaves act for it while it is away:
``acting_machines.py`` says what of the product that is.

``faults.py`` says what goes wrong, ``ledger.py`` what must be true all the same, and ``variants.py`` which broken rules
are seen by it.
"""
