import os
import signal

import xlnet

m = xlnet.load("model")  # any fine-tuned classifier
print(m.classify("Give the logger a handler.").label)
pid = os.fork()
if not pid:
    signal.alarm(20)
    try:
        print("child:", m.classify("Give the logger a handler.").label, flush=True)
    except Exception as e:
        print("child:", type(e).__name__, e, flush=True)
    os._exit(0)
print("child: hung" if os.waitpid(pid, 0)[1] else "child: ended")
