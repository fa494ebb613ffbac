all:
    echo till
