"""What open pages are told: one look at the broker a second, shared by all of them.

beat       the look, and the writing of it to each page
snapshot   the broker at one moment, every figure asked for and written once
follower   one page's stream
history    the last day, ever more coarsely
held       who was held in the last hour
"""
