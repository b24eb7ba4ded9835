"""The task types and the tasks: what labels mean, which loss and which metrics belong to them."""
