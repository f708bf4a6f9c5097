"""The messages (`factord_pb2`) and stubs (`factord_pb2_grpc`) of proto/factord/v1, made when the package is built."""
