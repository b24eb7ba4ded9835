"""What a request may ask for, how much waits, and how long anything may take."""

MAX_BODY = 1 << 20  # of a request [bytes]
MAX_INSTANCES = 128  # of a request
MAX_CHARACTERS = 100_000  # of a text
# Numbers, or items of a list.
MAX_OF_PARAMETER = {"max_tokens": 2048, "beams": 64, "top": 64, "layers": 4}
MAX_SQUARE = 64  # tokens of a text whose answer has a number for each two of them
MAX_WAITING = 1024  # instances of all requests that wait or are computed

MAX_BATCH = 32  # instances of several requests that are computed together
# [characters] of an instance that is computed together with those of other requests
MAX_SHORT = 4000
GATHER_SECONDS = 0.03  # in which prompts arrive that are continued together
# Tokens in a call of the network: how long others wait for their turn. More of them use a CPU no
# better.
CALL_TOKENS_CPU, CALL_TOKENS_GPU = 512, 8192
MAX_THREADS = 256  # computations at the same time, call by call of the network
# Requests that keep on the device, between calls of the network, what they have read. Each has a
# copy of the language model's graph, which is built before the server answers.
MAX_KEEPING_TOKENS = 6

MAX_SECONDS = 300  # of a request, waiting included
IDLE_SECONDS = 30  # after which a connection without another request is closed
GRACE_SECONDS = 4  # in which requests in progress are answered when the server ends
