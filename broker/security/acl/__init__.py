"""ACLs and the authorizer that decides by them. (Kafka: StandardAuthorizer)

Pure, and below broker.metadata, which stores the ACLs. broker.api asks the `Authorizer` in every handler;
broker.controller plans the changes of ACLs.
"""
